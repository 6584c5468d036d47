/* fleet: several engines of one model behind one door (data parallel), each with pages, cache and
 * steps of its own; usually each with a device of its own.
 *
 *   request ── fleet_route ──┬─► engine 0 ──┐
 *                            ├─► engine 1 ──┼─► fleet_next_event
 *   published prompt ── all ─┴─► engine 2 ──┘
 *
 * Owns:     the engines, and what was sent where.
 * Thread:   as engine.h says of the functions of the same names.
 * Cost:     beside the engine's own: a submit hashes its prompt and takes a lock; one engine costs
 *           neither.
 * Not here: what the ranks of one engine are told (rank_lead), processes (gateway/serve).
 *
 * A request lives in one engine; what is fair and who is urgent is decided there, among those that
 * it has. Published prompts are in all of them. Sums over engines are told as one engine's figures.
 */
#pragma once

#include "engine/engine.h"
#include "engine/engine_show.h"

struct fleet;

/* `engines`, 1 to LIMIT_ENGINES, each with the options' memory and as many sequences; without
 * `threads` the processors are divided among them; each is on the devices behind those of the one
 * before. With more than one their series carry the label engine="0", …. `ranks` has [engines],
 * each engine's own, all as many; NULL = none has any. As engine_open; the message names the
 * engine. */
enum status fleet_open(struct fleet **out, const struct engine_options *options,
                       struct ranks *const *ranks, uint32_t engines);
void fleet_close(struct fleet *fleet);
uint32_t fleet_count(const struct fleet *fleet);
/* Any of them, for text services, which are the same in all. */
struct engine *fleet_text(const struct fleet *fleet);

void fleet_info(const struct fleet *fleet, struct engine_info *out);
uint32_t fleet_pages_pinned_by(const struct fleet *fleet, uint32_t tokens);
void fleet_stats(const struct fleet *fleet, struct engine_stats *out);
/* A domain once, with the sums of all engines. */
size_t fleet_published(const struct fleet *fleet, struct engine_published *out, size_t count);
size_t fleet_requests(const struct fleet *fleet, struct engine_request_info *out, size_t count);

/* BUSY when none has room. One that is_published goes to all: only the last event of it is told, as
 * END with the sum of the pages when all have it, else as ERROR with the first reason, or as END of
 * one that was cancelled; those that have it then keep it until fleet_unpublish. */
enum status fleet_submit(struct fleet *fleet, const struct engine_request *request,
                         engine_request_id *out);
void fleet_cancel(struct fleet *fleet, engine_request_id id);
void fleet_lower(struct fleet *fleet, engine_request_id id);
enum status fleet_unpublish(struct fleet *fleet, const struct engine_domain *domain);
void fleet_acknowledge(struct fleet *fleet, engine_request_id id, uint32_t choice, uint32_t tokens);
/* Whether one of them has: the others go on with what they have. */
bool fleet_has_failed(const struct fleet *fleet);
bool fleet_next_event(struct fleet *fleet, struct engine_event *out);
