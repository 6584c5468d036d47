#include "engine/step/step_end.h"

#include "engine/step/step_charge.h"
#include "engine/step/step_pause.h"
#include "engine/step/step_prefix.h"
#include "engine/step/step_tell.h"

static void end_choice(struct step *step, uint32_t index, enum engine_finish finish)
{
    struct sequence *sequence = &step->sequences.slots[index];
    struct ticket *ticket = &step->options.tickets->slots[sequence->slot];
    struct outbox_record record = step_tell_record(step, ENGINE_EVENT_CHOICE_END, index);
    record.finish = finish;
    ticket->report.finish = finish;
    ticket->choices_ended++;
    step_prefix_end(step, sequence);
    step_pause_end(step, index);
    sequence_release(&step->sequences, &step->pool, index);
    step_tell(step, &record, NULL, text_stream_flush(&sequence->text));
}

static void end_started(struct step *step, uint32_t slot)
{
    struct ticket *ticket = &step->options.tickets->slots[slot];
    struct engine_report *report = &ticket->report;
    int64_t first_us = ticket->first_token_us > 0 ? ticket->first_token_us : step->now_us;
    report->queue_us = ticket->queue_us;
    report->prefill_us = first_us - ticket->admitted_us;
    report->decode_us = ticket->last_token_us > first_us ? ticket->last_token_us - first_us : 0;
    ticket->report_end = *report;
    step_charge_leave(step, slot);
    step_tell_figures(step);
    step_tell_request(step, ENGINE_EVENT_END, slot);
}

void step_end_own(struct step *step, uint32_t index, enum engine_finish finish)
{
    uint32_t slot = step->sequences.slots[index].slot;
    const struct ticket *ticket = &step->options.tickets->slots[slot];
    end_choice(step, index, finish);
    if (ticket->choices_ended == ticket->asked.choices)
        end_started(step, slot);
}

void step_end_refuse(struct step *step, uint32_t slot)
{
    step_queue_leave(&step->queue, slot);
    step->options.tickets->slots[slot].refusal = *status_note();
    step_charge_leave(step, slot);
    step_tell_figures(step);
    step_tell_request(step, ENGINE_EVENT_ERROR, slot);
}

void step_end_request(struct step *step, uint32_t slot, enum engine_finish finish)
{
    struct ticket *ticket = &step->options.tickets->slots[slot];
    if (ticket->choices_admitted == 0) {
        if (finish == ENGINE_FINISH_ERROR)
            status_fail(STATUS_UNAVAILABLE, __FILE__, __LINE__, NULL,
                        "the engine's device has failed");
        else if (finish == ENGINE_FINISH_CANCELLED)
            status_fail(STATUS_CANCELLED, __FILE__, __LINE__, NULL,
                        "the request was cancelled before it started");
        else
            status_fail(STATUS_DEADLINE, __FILE__, __LINE__, NULL,
                        "the request's deadline passed before it started");
        step_end_refuse(step, slot);
        return;
    }
    step_queue_leave(&step->queue, slot);
    for (uint32_t i = step->sequences.order_count; i-- > 0;) {
        uint32_t index = step->sequences.order[i];
        if (step->sequences.slots[index].slot == slot)
            end_choice(step, index, finish);
    }
    ticket->report.finish = finish;
    end_started(step, slot);
}
