/* edge_reload: certificates and reloadable options, read again while requests run.
 *
 * Owns:     the snapshot that a reload has made, and a look at the certificate's files a minute.
 * Thread:   the loop's thread.
 * Cost:     a reload reads three files and makes one snapshot; a look is two stats.
 * Not here: which options are reloadable (options.def), the change of context (tls).
 */
#pragma once

#include "gateway/edge/state/edge_state.h"

struct edge_reload;

/* `sources` NULL: certificates alone. `cert_path` and `key_path` are copied. `changed` is told of
 * every new snapshot that edge->config has become. */
enum status edge_reload_create(struct edge_reload **out, struct edge *edge,
                               const struct config_sources *sources, const char *cert_path,
                               const char *key_path,
                               void (*changed)(void *context, const struct config *config),
                               void *context);
/* Who reads the options too and is told by a byte of what edge_reload_everywhere has done: the
 * parent. The descriptor stays the caller's; -1: nobody. */
void edge_reload_set_parent(struct edge_reload *reload, int descriptor);
const struct config_sources *edge_reload_sources(const struct edge_reload *reload);
/* Puts the edge's first snapshot back: the others go with this. */
void edge_reload_destroy(struct edge_reload *reload);

/* Options, certificates and the access log's file, all or nothing: when any part is wrong, what was
 * there stays, and the log says what and why (reload_refused). */
enum status edge_reload_now(struct edge_reload *reload);
/* The same, and the parent does it too: who is asked over the config API, not by a signal. */
enum status edge_reload_everywhere(struct edge_reload *reload);
/* What edge_reload_now would do to the options, appended as config_changes does, and not done.
 * Fails as config_reload does, UNAVAILABLE without sources. */
enum status edge_reload_check(struct edge_reload *reload, struct buffer *changes);
