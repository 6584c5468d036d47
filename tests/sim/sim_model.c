#include "tests/sim/sim_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/hash.h"
#include "config/base/mem.h"
#include "config/base/rng.h"
#include "config/base/status.h"
#include "kernels/cpu/kv_tile.h"

struct model {
    struct model_config config;
    struct clock *clock;
    struct sim_model_cost cost;
    uint32_t rows_max;
    uint32_t logit_rows_max;
    uint32_t circles;
    uint64_t *chains; /* [rows_max] */
    bool *is_seen;    /* [rows_max] */
    float *logits;    /* [logit_rows_max][SIM_MODEL_VOCAB] */
    sim_model_watcher watch;
    void *watch_context;
};

/* One token of a page: two numbers of K, two of V, as bits. */
struct entry {
    uint32_t token;
    uint32_t chain_low;
    uint32_t chain_high;
    uint32_t seal;
};

struct model *sim_model_create(struct clock *clock, const struct sim_model_cost *cost,
                               uint32_t rows_max, uint32_t logit_rows_max, uint32_t context,
                               uint32_t circles)
{
    struct model *model = mem_zalloc(1, sizeof(*model));
    ASSERT(model != NULL);
    model->config = (struct model_config){.layers = 1,
                                          .width = 2,
                                          .heads = 1,
                                          .kv_heads = 1,
                                          .head_dim = 2,
                                          .vocab = SIM_MODEL_VOCAB,
                                          .kind_count = 1,
                                          .context = context};
    model->clock = clock;
    model->cost = *cost;
    model->rows_max = rows_max;
    model->logit_rows_max = logit_rows_max;
    model->circles = circles;
    model->chains = mem_zalloc(rows_max, sizeof(*model->chains));
    model->logits = mem_zalloc((size_t)logit_rows_max * SIM_MODEL_VOCAB, sizeof(*model->logits));
    model->is_seen = mem_zalloc(rows_max, sizeof(*model->is_seen));
    ASSERT(model->chains != NULL);
    ASSERT(model->is_seen != NULL);
    ASSERT(model->logits != NULL);
    return model;
}

void sim_model_destroy(struct model *model)
{
    mem_free(model->chains);
    mem_free(model->is_seen);
    mem_free(model->logits);
    mem_free(model);
}

void sim_model_watch(struct model *model, sim_model_watcher watch, void *context)
{
    model->watch = watch;
    model->watch_context = context;
}

enum status sim_model_layout(struct kernels *kernels, uint32_t page_tokens, uint32_t window_units,
                             uint32_t window, struct kv_layout *out)
{
    TRY(kernels_kv_layout(kernels, KV_TYPE_F32, page_tokens, 1, 1, 2, out));
    out->window_units = window > 0 ? window_units : 0;
    out->window = window_units > 0 ? window : 0;
    return STATUS_OK;
}

uint64_t sim_model_chain(uint64_t chain, uint32_t token, uint32_t position)
{
    return hash_mix64(chain + 0x9e3779b97f4a7c15u * ((uint64_t)position << 32 | (token + 1)));
}

/* Circles have eight tokens; the end token's circle omits it. */
static uint32_t logits_next(uint32_t token)
{
    bool is_last = token % 8 == 7 || token + 1 == SIM_MODEL_END_TOKEN;
    return is_last ? token - token % 8 : token + 1;
}

void sim_model_logits(uint64_t chain, uint32_t token, uint32_t circles, float *out)
{
    for (uint32_t t = 0; t < SIM_MODEL_VOCAB; t++)
        out[t] = (float)(rng_unit(hash_mix64(chain ^ (t + 1) * 0xd1342543de82ef95u)) * 8);
    if (hash_mix64(chain + 1) % 1000 < circles)
        out[logits_next(token)] += 1000; /* decides, whatever noise and temperature are */
}

/* --- entries of pages --- */

static struct entry entry_make(uint32_t token, uint32_t position, uint64_t chain, uint32_t group)
{
    return (struct entry){.token = token,
                          .chain_low = (uint32_t)chain,
                          .chain_high = (uint32_t)(chain >> 32),
                          .seal = (uint32_t)hash_mix64(chain ^ position) + group};
}

static uint32_t *entry_number(const struct kv_rows *kv, uint32_t row, uint32_t position,
                              uint32_t number)
{
    const struct kv_layout *layout = kv->layout;
    uint32_t token = position % layout->page_tokens;
    char *tile = kv_tile_at(layout, kv_tile_page(kv, row, position), 0, 0);
    size_t index = number < 2 ? kv_tile_k_index(layout, token, number)
                              : layout->tile_bytes / 4 + kv_tile_v_index(layout, token, number - 2);
    return (uint32_t *)(void *)tile + index;
}

static struct entry entry_read(const struct kv_rows *kv, uint32_t row, uint32_t position)
{
    return (struct entry){.token = *entry_number(kv, row, position, 0),
                          .chain_low = *entry_number(kv, row, position, 1),
                          .chain_high = *entry_number(kv, row, position, 2),
                          .seal = *entry_number(kv, row, position, 3)};
}

static void entry_write(const struct kv_rows *kv, uint32_t row, uint32_t position,
                        struct entry entry)
{
    *entry_number(kv, row, position, 0) = entry.token;
    *entry_number(kv, row, position, 1) = entry.chain_low;
    *entry_number(kv, row, position, 2) = entry.chain_high;
    *entry_number(kv, row, position, 3) = entry.seal;
}

/* The rows with the page tables of one group as the first tables. */
static struct kv_rows entry_group(const struct kv_rows *kv, uint32_t group)
{
    struct kv_rows own = *kv;
    own.page_tables += (size_t)group * kv->sequences;
    return own;
}

/* Checks that the unit of a group holds the right entry. */
static void entry_check(const struct kv_rows *kv, uint32_t row, uint32_t position, uint32_t group,
                        uint64_t chain)
{
    const struct kv_rows own = entry_group(kv, group);
    struct entry entry = entry_read(&own, row, position);
    struct entry right = entry_make(entry.token, position, chain, group);
    if (memcmp(&entry, &right, sizeof(entry)) == 0)
        return;
    fprintf(stderr,
            "sim_model: row %" PRIu32 " at position %" PRIu32 " reads unit %" PRIu32
            " of group %" PRIu32 ", whose entry of position %" PRIu32 " (token %" PRIu32
            ") does not follow from those before it\n",
            row, kv->position[row],
            own.page_tables[kv->sequence[row]][position / kv->layout->page_tokens], group, position,
            entry.token);
    abort();
}

/* Follows the chain through positions 0 … count − 1 of the row's sequence. Those that the row reads
 * through a window are also read in the window units. */
static uint64_t entry_follow(const struct kv_rows *kv, uint32_t row, uint32_t count)
{
    const uint32_t first = kernels_window_first(kv->layout->window, kv->position[row]);
    uint64_t chain = 0;
    for (uint32_t p = 0; p < count; p++) {
        const struct entry entry = entry_read(kv, row, p);
        chain = sim_model_chain(chain, entry.token, p);
        for (uint32_t group = 0; group == 0 || (p >= first && group <= kv->layout->window_units);
             group++)
            entry_check(kv, row, p, group, chain);
    }
    return chain;
}

/* Writes the entry into all units of its page. */
static void entry_write_all(const struct kv_rows *kv, uint32_t row, uint32_t position,
                            uint32_t token, uint64_t chain)
{
    for (uint32_t group = 0; group <= kv->layout->window_units; group++) {
        const struct kv_rows own = entry_group(kv, group);
        entry_write(&own, row, position, entry_make(token, position, chain, group));
    }
}

/* --- model.h --- */

const struct model_config *model_config(const struct model *model)
{
    return &model->config;
}

/* No request of the simulation asks for embeddings. */
const float *model_states(const struct model *model)
{
    (void)model;
    ASSERT(false);
    return NULL;
}

static bool forward_is_last(const struct model_batch *batch, uint32_t row)
{
    return row + 1 == batch->rows || batch->kv.sequence[row + 1] != batch->kv.sequence[row];
}

/* Checks that rows which attention may read together share those pages, and see that far. */
static void forward_check_groups(const struct model *model, const struct model_batch *batch)
{
    const struct kv_rows *kv = &batch->kv;
    const struct attention_groups *groups = batch->groups;
    memset(model->is_seen, 0, batch->rows * sizeof(*model->is_seen));
    for (uint32_t i = 0; i < batch->rows; i++) {
        uint32_t row = groups->order[i];
        ASSERT(row < batch->rows);
        ASSERT(!model->is_seen[row]);
        model->is_seen[row] = true;
        if (groups->shared[i] == 0)
            continue;
        ASSERT(i > 0);
        uint32_t before = groups->order[i - 1];
        ASSERT(groups->shared[i] % ATTENTION_BLOCK_KEYS == 0);
        ASSERT(groups->shared[i] <= kv->position[row] + 1);
        ASSERT(groups->shared[i] <= kv->position[before] + 1);
        for (uint32_t p = 0; p < groups->shared[i] / kv->layout->page_tokens; p++)
            ASSERT(kv->page_tables[kv->sequence[row]][p] ==
                   kv->page_tables[kv->sequence[before]][p]);
    }
}

/* All rows are written before any sequence is read again, so that a write to a page that another
 * sequence reads is found in either order. */
const float *model_forward(struct model *model, const struct model_batch *batch)
{
    const struct kv_rows *kv = &batch->kv;
    int64_t keys = 0;
    ASSERT(batch->rows >= 1);
    ASSERT(batch->rows <= model->rows_max);
    ASSERT(batch->logit_rows <= model->logit_rows_max);
    if (model->watch != NULL && batch->layers == 0)
        model->watch(model->watch_context, batch);
    if (batch->groups != NULL)
        forward_check_groups(model, batch);
    for (uint32_t r = 0; r < batch->rows; r++) {
        uint32_t position = kv->position[r];
        bool goes_on = r > 0 && kv->sequence[r - 1] == kv->sequence[r];
        ASSERT(batch->tokens[r] < SIM_MODEL_VOCAB);
        ASSERT(position < model->config.context);
        ASSERT(!goes_on || kv->position[r - 1] + 1 == position);
        uint64_t before = goes_on ? model->chains[r - 1] : entry_follow(kv, r, position);
        model->chains[r] = sim_model_chain(before, batch->tokens[r], position);
        entry_write_all(kv, r, position, batch->tokens[r], model->chains[r]);
        keys += position + 1;
    }
    for (uint32_t r = 0; r < batch->rows; r++)
        if (forward_is_last(batch, r))
            ASSERT(entry_follow(kv, r, kv->position[r] + 1) == model->chains[r]);
    uint32_t circles = batch->layers == 0 ? model->circles : 1000;
    for (uint32_t i = 0; i < batch->logit_rows; i++) {
        uint32_t row = batch->logit_row[i];
        ASSERT(row < batch->rows);
        sim_model_logits(model->chains[row], batch->tokens[row], circles,
                         model->logits + i * SIM_MODEL_VOCAB);
    }
    int64_t us =
        model->cost.fixed_us + batch->rows * model->cost.row_us + keys / model->cost.keys_of_us;
    clock_manual_advance(model->clock, batch->layers == 0 ? us : us / 8);
    return model->logits;
}
