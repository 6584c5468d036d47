/* fleet: several engines of one model behind one door (data parallel). Each engine has its own
 * pages, cache and steps, and usually its own device.
 *
 *   request ── fleet_route ──┬─► engine 0 ──┐
 *                            ├─► engine 1 ──┼─► fleet_next_event
 *   published prompt ── all ─┴─► engine 2 ──┘
 *
 * Owns:     the engines, and the record of which request went to which engine.
 * Thread:   as engine.h says of the functions of the same names.
 * Cost:     beside the engine's own: a submit hashes its prompt and takes a lock; a fleet of one
 *           engine does neither.
 * Not here: what the ranks of one engine are told (rank_lead), processes (gateway/serve).
 *
 * A request lives in one engine. Fairness and urgency are decided in each engine among its own
 * requests. A published prompt is in all engines. Figures are the sums over the engines.
 */
#pragma once

#include "engine/engine.h"
#include "engine/engine_show.h"

struct fleet;

/* Opens `engines` engines, 1 to LIMIT_ENGINES. Each gets the memory and the number of sequences
 * that the options say; if options->threads is 0, the processors are divided among the engines.
 * Engine i takes the devices after those of engine i - 1. With more than one engine, the series
 * carry the label engine="0" and so on. `ranks` has one entry for each engine, all with the same
 * number of ranks; NULL = one rank each. Errors as engine_open; the message names the engine. */
enum status fleet_open(struct fleet **out, const struct engine_options *options,
                       struct ranks *const *ranks, uint32_t engines);
void fleet_close(struct fleet *fleet);
uint32_t fleet_count(const struct fleet *fleet);
/* An engine for text services, which give the same answers in all of them. */
struct engine *fleet_text(const struct fleet *fleet);

void fleet_info(const struct fleet *fleet, struct engine_info *out);
uint32_t fleet_pages_pinned_by(const struct fleet *fleet, uint32_t tokens);
void fleet_stats(const struct fleet *fleet, struct engine_stats *out);
/* Each domain appears once, with the sums of all engines. */
size_t fleet_published(const struct fleet *fleet, struct engine_published *out, size_t count);
size_t fleet_requests(const struct fleet *fleet, struct engine_request_info *out, size_t count);

/* As engine_submit: BUSY or ENGINE_SHARE when no engine has room. A request that is_published goes
 * to all engines, and the consumer sees one last event: END with the sum of the pages when all
 * engines have published it, else the first ERROR, or the END of the first that was cancelled or
 * failed. Engines that did publish it keep it until fleet_unpublish. */
enum status fleet_submit(struct fleet *fleet, const struct engine_request *request,
                         engine_request_id *out);
void fleet_cancel(struct fleet *fleet, engine_request_id id);
void fleet_lower(struct fleet *fleet, engine_request_id id);
enum status fleet_unpublish(struct fleet *fleet, const struct engine_domain *domain);
void fleet_acknowledge(struct fleet *fleet, engine_request_id id, uint32_t choice, uint32_t tokens);
/* Whether at least one engine has failed. The others serve on. */
bool fleet_has_failed(const struct fleet *fleet);
bool fleet_next_event(struct fleet *fleet, struct engine_event *out);
