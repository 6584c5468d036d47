#include "engine/step/step_load.h"

/* A step with rows behind the planned ones may take this many times as long as without, even beyond
 * the step's limit: the steps of a large model exceed it whatever is planned. */
static const double limit_stretch = 1.25;

double step_load_keys(const struct step *step, uint32_t first, uint32_t rows)
{
    return scheduler_cost_keys(&step->cost.fit, first, rows);
}

struct step_load step_load_planned(const struct step *step, uint32_t parts)
{
    struct step_load load = {0};
    for (uint32_t i = 0; i < parts; i++) {
        const struct step_part *part = &step->parts[i];
        const struct sequence *sequence = &step->sequences.slots[part->sequence];
        uint32_t end = sequence->computed + part->rows;
        uint32_t from = sequence_logits_from(sequence);
        from = from > sequence->computed ? from : sequence->computed;
        load.rows += part->rows + part->forced;
        load.logit_rows += end > from ? end - from + part->forced : 0;
        load.keys += step_load_keys(step, sequence->computed, part->rows + part->forced);
        load.tokens += end == sequence->token_count ? part->forced + 1 : 0;
    }
    return load;
}

double step_load_limit_us(const struct step *step, const struct step_load *planned, double limit_us)
{
    double least_us =
        limit_stretch * step_cost_predict(&step->cost.bound, planned->rows, planned->keys);
    return limit_us > 0 && limit_us < least_us ? least_us : limit_us;
}
