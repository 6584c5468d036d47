#include "kernels/cuda/cuda_step.h"

#include <string.h>

static size_t form_take(size_t *used, size_t bytes)
{
    const size_t at = *used;
    *used += (bytes + 15) / 16 * 16;
    return at;
}

void cuda_step_form(struct cuda_step_form *out, uint32_t rows, uint32_t wanted, uint32_t kinds,
                    uint32_t processors)
{
    size_t used = 0;
    (void)form_take(&used, sizeof(struct cuda_step_head));
    *out = (struct cuda_step_form){.rows = {rows, wanted}, .kinds = kinds};
    out->tokens = form_take(&used, rows * sizeof(uint32_t));
    out->positions = form_take(&used, rows * sizeof(uint32_t));
    out->logit_row = form_take(&used, wanted * sizeof(uint32_t));
    for (int set = 0; set < CUDA_STEP_SETS; set++) {
        const uint32_t of = out->rows[set];
        out->row[set] = form_take(&used, of * sizeof(struct cuda_plan_row));
        for (uint32_t kind = 0; kind < kinds; kind++)
            out->plan[set][kind] = form_take(&used, cuda_tiles_bytes(of, of > 0 ? processors : 0));
    }
    out->tables = used;
}

uint32_t cuda_step_wanted(const struct kernels_step *step)
{
    bool is_all = step->logit_rows == step->rows;
    for (uint32_t i = 0; is_all && i < step->rows; i++)
        is_all = step->logit_row[i] == i;
    return is_all ? 0 : step->logit_rows;
}

/* Copies `given` [count] and pads it with zeros; all zeros when `given` is NULL. */
static void fill_array(char *to, const uint32_t *given, uint32_t count, uint32_t padded)
{
    const size_t bytes = given != NULL ? count * sizeof *given : 0;
    if (bytes > 0)
        memcpy(to, given, bytes);
    memset(to + bytes, 0, padded * sizeof *given - bytes);
}

/* Plans attention over a set, in layers of one kind. */
static void fill_plan(const struct cuda_step_form *form, const struct kernels_step *step,
                      const struct cuda_step_room *room, uint32_t index, uint32_t rows,
                      uint32_t kind, char *area, struct cuda_step_plan *out)
{
    const struct kv_layout *layout = step->kv.layout;
    const bool has_own_units = kind > 0 && layout->window_units > 0;
    const struct attention_groups *groups =
        index == CUDA_STEP_ALL ? step->groups : step->wanted_groups;
    struct cuda_tiles_head *tiles = (struct cuda_tiles_head *)(area + form->plan[index][kind]);
    *tiles = (struct cuda_tiles_head){0};
    if (step->heads > 0 && rows > 0)
        cuda_tiles_plan(
            &(struct cuda_tiles_args){.rows = (struct cuda_plan_row *)(area + form->row[index]),
                                      .count = rows,
                                      .groups = has_own_units ? NULL : groups,
                                      .window = step->window[kind],
                                      .group = step->heads / layout->kv_heads,
                                      .kv_heads = layout->kv_heads,
                                      .processors = room->processors,
                                      .states_max = room->split_bytes /
                                                    (step->heads * sizeof(float) *
                                                     (CUDA_TILES_STATE + layout->head_dim))},
            tiles);
    *out = (struct cuda_step_plan){.works = tiles->works, .has_states = tiles->states > 0};
}

/* Fills the padding rows after the last row of a set, and its plans. */
static void fill_set(const struct cuda_step_form *form, const struct kernels_step *step,
                     const struct cuda_step_room *room, uint32_t index, uint32_t rows, char *area,
                     struct cuda_step_set *set)
{
    struct cuda_plan_row *row = (struct cuda_plan_row *)(area + form->row[index]);
    for (uint32_t r = rows; r < form->rows[index]; r++)
        row[r] = (struct cuda_plan_row){.position = CUDA_PLAN_NONE};
    *set = (struct cuda_step_set){.rows = form->rows[index]};
    for (uint32_t kind = 0; kind < form->kinds; kind++)
        fill_plan(form, step, room, index, rows, kind, area, &set->plans[kind]);
}

size_t cuda_step_fill(const struct cuda_step_form *form, const struct kernels_step *step,
                      const struct cuda_step_room *room, char *area, struct cuda_step_set *sets)
{
    struct cuda_plan_row *row = (struct cuda_plan_row *)(area + form->row[CUDA_STEP_ALL]);
    struct cuda_plan_row *wanted = (struct cuda_plan_row *)(area + form->row[CUDA_STEP_WANTED]);
    const uint32_t entries = cuda_plan_rows(&step->kv, step->rows, row,
                                            (uint32_t *)(area + form->tables), room->tables_max);
    const uint32_t wanted_rows = cuda_step_wanted(step);
    struct cuda_step_head *head = (struct cuda_step_head *)area;
    if (entries == CUDA_PLAN_NONE)
        return 0;
    head->rows = step->rows;
    head->logit_rows = step->logit_rows;
    fill_array(area + form->tokens, step->tokens, step->rows, form->rows[CUDA_STEP_ALL]);
    fill_array(area + form->positions, step->kv.position, step->rows, form->rows[CUDA_STEP_ALL]);
    fill_array(area + form->logit_row, step->logit_row, wanted_rows, form->rows[CUDA_STEP_WANTED]);
    for (uint32_t i = 0; i < wanted_rows; i++)
        wanted[i] = row[step->logit_row[i]];
    fill_set(form, step, room, CUDA_STEP_ALL, step->rows, area, &sets[CUDA_STEP_ALL]);
    fill_set(form, step, room, CUDA_STEP_WANTED, wanted_rows, area, &sets[CUDA_STEP_WANTED]);
    return form->tables + entries * sizeof(uint32_t);
}
