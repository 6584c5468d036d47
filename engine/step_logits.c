#include "engine/step_logits.h"

enum status step_logits_init(struct step_logits *logits, struct kernels *kernels, uint32_t vocab,
                             uint32_t rows_max)
{
    *logits = (struct step_logits){.kernels = kernels, .vocab = vocab};
    if (!kernels_is_device(kernels))
        return STATUS_OK;
    logits->host = kernels_host_create(kernels, (size_t)rows_max * vocab * sizeof(float));
    if (logits->host == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for %u rows of logits", rows_max);
    return STATUS_OK;
}

void step_logits_deinit(struct step_logits *logits)
{
    if (logits->host != NULL)
        kernels_host_destroy(logits->kernels, logits->host);
    *logits = (struct step_logits){0};
}

const float *step_logits_read(struct step_logits *logits, const float *from, uint32_t rows,
                              struct logits_stats *stats)
{
    if (from == NULL)
        return NULL;
    kernels_logits_stats(logits->kernels, from, rows, logits->vocab, stats);
    if (logits->host == NULL)
        return from;
    const size_t bytes = (size_t)rows * logits->vocab * sizeof(float);
    if (kernels_download(logits->kernels, logits->host, from, bytes) != STATUS_OK)
        return NULL;
    return logits->host;
}
