#include "engine/sequence/batch.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/base/mem.h"
#include "config/base/rng.h"

static struct kernels *kernels;
static struct kv_pool pool;
static uint32_t page = 16; /* tokens */
static const struct engine_domain own = {{1}};
static const struct engine_domain foreign = {{2}};

static int setup(void **state)
{
    (void)state;
    struct kv_layout layout;
    const struct kernels_options options = {
        .isa = "ref", .threads = 1, .rows_max = 4, .cols_max = 64};
    if (kernels_create(&kernels, &options) != STATUS_OK)
        return -1;
    if (kernels_kv_layout(kernels, KV_TYPE_F16, page, 1, 1, 4, &layout) != STATUS_OK)
        return -1;
    return kv_pool_init(&pool, kernels, &layout, layout.page_bytes * 8, 32) != STATUS_OK;
}

static int teardown(void **state)
{
    (void)state;
    kv_pool_deinit(&pool);
    kernels_destroy(kernels);
    return 0;
}

static void test_rows_of_two_sequences(void **state)
{
    (void)state;
    struct batch batch;
    uint32_t tokens[40];
    for (uint32_t i = 0; i < 40; i++)
        tokens[i] = 100 + i;
    const page_id first[2] = {kv_pool_acquire(&pool, &own), kv_pool_acquire(&pool, &own)};
    const page_id second[1] = {kv_pool_acquire(&pool, &own)};
    assert_int_equal(batch_init(&batch, 8, 4, 2), STATUS_OK);
    for (int round = 0; round < 2; round++) { /* batch_begin forgets the round before */
        batch_begin(&batch, &pool, NULL);
        struct batch_part part = {.tokens = tokens,
                                  .first = 14,
                                  .rows = 5,
                                  .logits_from = 17,
                                  .pages = first,
                                  .page_count = 2,
                                  .visible = &own,
                                  .visible_count = 1};
        assert_int_equal(batch_add(&batch, &pool, &part), 0);
        part.first = 0;
        part.rows = 3;
        part.logits_from = 2;
        part.pages = second;
        part.page_count = 1;
        assert_int_equal(batch_add(&batch, &pool, &part), 2);
    }
    const struct model_batch *model = &batch.model;
    assert_int_equal(model->rows, 8);
    assert_int_equal(model->logit_rows, 3);
    static const uint32_t positions[8] = {14, 15, 16, 17, 18, 0, 1, 2};
    for (uint32_t row = 0; row < 8; row++) {
        assert_int_equal(model->kv.position[row], positions[row]);
        assert_int_equal(model->tokens[row], 100 + positions[row]);
        assert_int_equal(model->kv.sequence[row], row < 5 ? 0 : 1);
    }
    assert_int_equal(model->logit_row[0], 3);
    assert_int_equal(model->logit_row[1], 4);
    assert_int_equal(model->logit_row[2], 7);
    assert_ptr_equal(model->kv.page_tables[0], first);
    assert_ptr_equal(model->kv.page_tables[1], second);
    assert_ptr_equal(model->kv.pages, pool.memory);
    batch_deinit(&batch);
    kv_pool_release(&pool, first[0]);
    kv_pool_release(&pool, first[1]);
    kv_pool_release(&pool, second[0]);
}

enum { GROUP_SEQUENCES = 12, GROUP_PAGES = 40, GROUP_TOKENS_MOST = 128 };

/* Which pages stand where does not matter here, only which are the same: the layout is enough. */
static void check_groups(struct rng *rng, struct batch *batch)
{
    static page_id pages[GROUP_SEQUENCES][GROUP_PAGES];
    static const uint32_t tokens[GROUP_PAGES * GROUP_TOKENS_MOST];
    uint32_t first[GROUP_SEQUENCES];
    uint32_t count = 1 + (uint32_t)rng_below(rng, GROUP_SEQUENCES);
    batch_begin(batch, &pool, NULL);
    for (uint32_t s = 0; s < count; s++) {
        uint32_t other = s > 0 ? (uint32_t)rng_below(rng, s) : 0;
        uint32_t same = s > 0 ? (uint32_t)rng_below(rng, GROUP_PAGES + 1) : 0;
        for (uint32_t p = 0; p < GROUP_PAGES; p++)
            pages[s][p] = p < same ? pages[other][p] : (page_id)rng_below(rng, pool.unit_count);
        first[s] = (uint32_t)rng_below(rng, GROUP_PAGES * page - 4);
        batch_add(batch, &pool,
                  &(struct batch_part){.tokens = tokens,
                                       .first = first[s],
                                       .rows = 1 + (uint32_t)rng_below(rng, 3),
                                       .logits_from = UINT32_MAX,
                                       .pages = pages[s],
                                       .page_count = GROUP_PAGES,
                                       .visible = &own,
                                       .visible_count = 1});
    }
    batch_group(batch);
    uint32_t most[GROUP_SEQUENCES] = {0}; /* in common with any other, by the stupid way */
    uint32_t found[GROUP_SEQUENCES] = {0};
    for (uint32_t a = 0; a < count; a++)
        for (uint32_t b = 0; b < count; b++) {
            uint32_t keys = 0; /* whole blocks that both see, of whole pages that both see */
            while (a != b && (keys / page + 1) * page <= first[a] + 1 &&
                   (keys / page + 1) * page <= first[b] + 1 &&
                   pages[a][keys / page] == pages[b][keys / page])
                keys += page;
            keys = keys / 64 * 64;
            most[a] = keys > most[a] ? keys : most[a];
        }
    const struct attention_groups *groups = batch->model.groups;
    const uint32_t *sequence = batch->sequence;
    uint32_t seen = 0;
    bool is_shared = false;
    for (uint32_t s = 0; s < count; s++)
        is_shared = is_shared || most[s] > 0;
    assert_int_equal(groups != NULL, is_shared);
    for (uint32_t i = 0; groups != NULL && i < batch->model.rows; i++) {
        uint32_t row = groups->order[i];
        uint32_t before = i > 0 ? groups->order[i - 1] : row;
        uint32_t keys = groups->shared[i];
        assert_true(row < batch->model.rows);
        if (i > 0 && sequence[row] == sequence[before])
            assert_int_equal(row, before + 1); /* rows of a sequence together, rising */
        else
            seen++;
        assert_int_equal(keys % 64, 0);
        if (keys == 0)
            continue;
        uint32_t a = sequence[before];
        uint32_t b = sequence[row];
        assert_int_not_equal(a, b);
        assert_true(keys <= first[a] + 1 && keys <= first[b] + 1);
        assert_memory_equal(pages[a], pages[b], keys / page * sizeof(page_id));
        found[a] = keys > found[a] ? keys : found[a];
        found[b] = keys > found[b] ? keys : found[b];
    }
    if (groups != NULL)
        assert_int_equal(seen, count);
    assert_memory_equal(found, most, sizeof most); /* next to one that shares most with it */
}

static void test_groups(void **state)
{
    (void)state;
    struct batch batch;
    struct rng rng = {.seed = 3};
    page_id held[8];
    for (uint32_t i = 0; i < pool.unit_count; i++)
        held[i] = kv_pool_acquire(&pool, &own);
    assert_int_equal(batch_init(&batch, 3 * GROUP_SEQUENCES, 1, GROUP_SEQUENCES), STATUS_OK);
    for (int round = 0; round < 3000; round++)
        check_groups(&rng, &batch);
    batch_deinit(&batch);
    for (uint32_t i = 0; i < pool.unit_count; i++)
        kv_pool_release(&pool, held[i]);
}

/* Whether adding `part` ends the process by abort(): run in a child. */
static bool dies(struct batch *batch, const struct batch_part *part)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        fclose(stderr);
        signal(SIGABRT, SIG_DFL);
        batch_begin(batch, &pool, NULL);
        batch_add(batch, &pool, part);
        _exit(0);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    return WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT;
}

/* Each of these would read or write what is not the sequence's. */
static void test_gates(void **state)
{
    (void)state;
    struct batch batch;
    const uint32_t tokens[40] = {0};
    const page_id pages[2] = {kv_pool_acquire(&pool, &own), kv_pool_acquire(&pool, &foreign)};
    assert_int_equal(batch_init(&batch, 20, 2, 2), STATUS_OK);
    const struct engine_domain both[2] = {foreign, own};
    const struct batch_part right = {.tokens = tokens,
                                     .first = 15,
                                     .rows = 2,
                                     .logits_from = 16,
                                     .pages = pages,
                                     .page_count = 2,
                                     .visible = both,
                                     .visible_count = 2};
    assert_false(dies(&batch, &right));
    struct batch_part part = right;
    part.visible = &own;
    part.visible_count = 1;
    assert_true(dies(&batch, &part)); /* the second page is of a domain it may not see */
    part = right;
    part.page_count = 1;
    assert_true(dies(&batch, &part)); /* position 16 lies past its pages */
    part = right;
    part.first = 0;
    part.rows = 21;
    assert_true(dies(&batch, &part)); /* more rows than the batch takes */
    part = right;
    part.first = 0;
    part.rows = 3;
    part.logits_from = 0;
    assert_true(dies(&batch, &part)); /* more logits than the model gives */
    batch_deinit(&batch);
    kv_pool_release(&pool, pages[0]);
    kv_pool_release(&pool, pages[1]);
}

static int refuse_after(void *context, size_t bytes)
{
    (void)bytes;
    int *left = context;
    return (*left)-- <= 0;
}

static void test_no_memory(void **state)
{
    (void)state;
    for (int allowed = 0; allowed < 9; allowed++) {
        struct batch batch;
        int left = allowed;
        mem_hook_set(refuse_after, &left);
        assert_int_equal(batch_init(&batch, 8, 4, 2), STATUS_NO_MEMORY);
        mem_hook_set(NULL, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_of_two_sequences),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_gates),
        cmocka_unit_test(test_no_memory),
    };
    const struct CMUnitTest of_large_pages[] = {
        cmocka_unit_test(test_groups),
    };
    int failed = cmocka_run_group_tests(tests, setup, teardown);
    for (page = 64; page <= GROUP_TOKENS_MOST; page *= 2)
        failed += cmocka_run_group_tests(of_large_pages, setup, teardown);
    return failed;
}
