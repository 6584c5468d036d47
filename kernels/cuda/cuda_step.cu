#include "kernels/cuda/cuda_backend.cuh"

#include <string.h>

#include "kernels/cuda/cuda_nccl.h"

static enum status step_failed(const struct cuda_backend *backend)
{
    if (backend->is_failed)
        FAIL(STATUS_UNAVAILABLE, "%s", backend->message);
    return STATUS_OK;
}

extern "C" uint32_t cuda_step_rows(const struct cuda_backend *backend, uint32_t rows)
{
    const struct cuda_step *step = &backend->step;
    const bool is_of_logits = rows <= step->logits_room;
    if (!step->is_running || !step->is_padded)
        return rows;
    return cuda_graph_bucket(rows, is_of_logits ? step->logits_room : backend->options.rows_max);
}

extern "C" const uint32_t *cuda_step_tokens(const struct cuda_backend *backend)
{
    return (const uint32_t *)(backend->step.area + backend->step.form.tokens);
}

extern "C" const uint32_t *cuda_step_positions(const struct cuda_backend *backend)
{
    return (const uint32_t *)(backend->step.area + backend->step.form.positions);
}

extern "C" const uint32_t *cuda_step_logit_row(const struct cuda_backend *backend)
{
    return (const uint32_t *)(backend->step.area + backend->step.form.logit_row);
}

extern "C" enum status cuda_step_open(struct cuda_backend *backend)
{
    const struct cuda_backend_options *options = &backend->options;
    struct cuda_step *step = &backend->step;
    struct cuda_step_form form;
    const char *what = "a step's rows and page tables";
    cuda_step_form(&form, options->rows_max, options->rows_max, KERNELS_STEP_KINDS,
                   backend->processors);
    const size_t bytes = form.tables + options->tables_max * sizeof(uint32_t);
    TRY(cuda_backend_alloc(backend, (void **)&step->area, bytes, what));
    return cuda_backend_alloc_host(backend, (void **)&step->host, bytes, what);
}

/* Waits until the host's area may be written again. */
static bool step_wait_sent(struct cuda_backend *backend)
{
    if (backend->step.is_sending && backend->nccl != NULL)
        cuda_nccl_wait(backend->nccl); /* the copy comes after sums of the step before */
    if (backend->is_failed)
        return false;
    if (backend->step.is_sending)
        cuda_backend_is_well(backend, cudaEventSynchronize(backend->sent), "step");
    backend->step.is_sending = false;
    return !backend->is_failed;
}

static void step_send(struct cuda_backend *backend, size_t bytes)
{
    struct cuda_step *step = &backend->step;
    step->is_sending = true;
    if (cuda_backend_is_well(
            backend,
            cudaMemcpyAsync(step->area, step->host, bytes, cudaMemcpyDefault, backend->stream),
            "step"))
        cuda_backend_is_well(backend, cudaEventRecord(backend->sent, backend->stream), "step");
}

/* Pads, fills and sends the area, and sets the addresses of the sets. */
static enum status step_place(struct cuda_backend *backend, const struct kernels_step *of,
                              bool is_padded)
{
    struct cuda_step *step = &backend->step;
    const struct cuda_step_room room = {backend->processors, backend->options.tables_max,
                                        backend->options.split_bytes};
    ASSERT(of->rows <= backend->options.rows_max);
    ASSERT(of->logit_rows <= of->rows);
    step->logits_room = of->logit_rows_max;
    step->heads = of->heads;
    memcpy(step->window, of->window, sizeof step->window);
    step->is_padded = is_padded;
    step->is_running = true;
    cuda_step_form(&step->form, cuda_step_rows(backend, of->rows),
                   cuda_step_rows(backend, cuda_step_wanted(of)), cuda_step_kinds(of),
                   backend->processors);
    step->is_running = false;
    const size_t bytes = cuda_step_fill(&step->form, of, &room, step->host, step->sets);
    if (bytes == 0) {
        memset(step->sets, 0, sizeof step->sets);
        FAIL(STATUS_LIMIT, "a step of %u rows has more than %u pages in its tables", of->rows,
             backend->options.tables_max);
    }
    for (int set = 0; set < CUDA_STEP_SETS; set++) {
        step->sets[set].row = (const struct cuda_plan_row *)(step->area + step->form.row[set]);
        for (uint32_t kind = 0; kind < step->form.kinds; kind++)
            step->sets[set].plans[kind].tiles =
                (const struct cuda_tiles_head *)(step->area + step->form.plan[set][kind]);
    }
    step->tables = (const uint32_t *)(step->area + step->form.tables);
    step_send(backend, bytes);
    return STATUS_OK;
}

extern "C" enum status cuda_step_begin(struct cuda_backend *backend,
                                       const struct kernels_step *step)
{
    if (!step_wait_sent(backend))
        return STATUS_OK; /* cuda_backend_end reports it */
    return step_place(backend, step, false);
}

extern "C" enum status cuda_backend_batch(struct cuda_backend *backend, const struct kv_rows *kv,
                                          uint32_t rows, uint32_t heads, uint32_t window,
                                          const struct attention_groups *groups)
{
    struct kernels_step step = {};
    step.rows = rows;
    step.kv = *kv;
    step.heads = heads;
    step.window[0] = window;
    step.window[1] = kv->layout->window_units > 0 ? kv->layout->window : 0;
    step.groups = groups;
    return cuda_step_begin(backend, &step);
}

static struct cuda_graph_key step_key(const struct cuda_backend *backend,
                                      const struct kernels_step *of, void (*forward)(void *context),
                                      const void *context)
{
    const struct cuda_step *step = &backend->step;
    const struct kv_layout *layout = of->kv.layout;
    struct cuda_graph_key key;
    memset(&key, 0, sizeof key);
    key.forward = forward;
    key.context = context;
    key.pages = of->kv.pages;
    key.page_bytes = layout->page_bytes;
    key.type = (uint32_t)layout->type;
    key.page_tokens = layout->page_tokens;
    key.layers = of->layers;
    key.rows = step->form.rows[CUDA_STEP_ALL];
    key.wanted = step->form.rows[CUDA_STEP_WANTED];
    key.is_all = key.wanted == 0 && of->logit_rows > 0;
    key.has_sums = of->has_sums;
    for (int set = 0; set < CUDA_STEP_SETS; set++) {
        for (uint32_t kind = 0; kind < step->form.kinds; kind++) {
            key.blocks[set][kind] = cuda_tiles_bucket(step->sets[set].plans[kind].works);
            key.has_states[set][kind] = step->sets[set].plans[kind].has_states;
        }
    }
    return key;
}

extern "C" enum status cuda_step_run(struct cuda_backend *backend, const struct kernels_step *step,
                                     void (*forward)(void *context), void *context)
{
    /* With NCCL, ranks sum the same number of rows with and without graphs, because they decide
     * anew in each of these steps. */
    const bool is_padded = (!backend->graphs.is_off || backend->nccl != NULL) && step->rows > 0 &&
                           step->rows <= CUDA_GRAPH_ROWS_MAX;
    if (!step_wait_sent(backend))
        return step_failed(backend);
    TRY(step_place(backend, step, is_padded));
    backend->step.is_running = true;
    if (is_padded) {
        const struct cuda_graph_key key = step_key(backend, step, forward, context);
        cuda_graph_run(backend, &key, forward, context);
    } else {
        forward(context);
    }
    backend->step.is_running = false;
    return step_failed(backend);
}
