/* edge_reload: reads certificates and reloadable options again while requests run.
 *
 * Owns:     the snapshot of the options that the last reload has made, and a timer that looks at
 *           the certificate's files once a minute.
 * Thread:   the loop's thread.
 * Cost:     a reload reads the configuration file, the certificates and their keys, and makes one
 *           snapshot; a look is two calls of stat.
 * Not here: which options are reloadable (options.def), how a new certificate is taken into use
 *           (tls).
 */
#pragma once

#include "gateway/edge/state/edge_state.h"

struct edge_reload;

/* With `sources` NULL, only certificates are read again. `cert_path` and `key_path` are copied.
 * `changed` is called after each reload that has replaced edge->config, with the new snapshot.
 * NO_MEMORY. */
enum status edge_reload_create(struct edge_reload **out, struct edge *edge,
                               const struct config_sources *sources, const char *cert_path,
                               const char *key_path,
                               void (*changed)(void *context, const struct config *config),
                               void *context);
/* Sets the descriptor on which edge_reload_everywhere tells the parent, by one byte, to reload its
 * own options. The descriptor stays the caller's; -1: there is no parent to tell. */
void edge_reload_set_parent(struct edge_reload *reload, int descriptor);
/* The sources given to edge_reload_create; may be NULL. */
const struct config_sources *edge_reload_sources(const struct edge_reload *reload);
/* Sets edge->config back to its first snapshot and frees the later one. NULL is allowed. */
void edge_reload_destroy(struct edge_reload *reload);

/* Reads options and certificates again, all or nothing: when any part is wrong, the old ones stay,
 * and the log says what was wrong (reload_refused). The access log's file is opened again in both
 * cases. */
enum status edge_reload_now(struct edge_reload *reload);
/* The same, and tells the parent to do it too. For a reload over the config API; a signal reaches
 * the parent by itself. */
enum status edge_reload_everywhere(struct edge_reload *reload);
/* A dry run: appends what edge_reload_now would change in the options, in the form of
 * config_changes. Fails as config_reload does; UNAVAILABLE without sources. */
enum status edge_reload_check(struct edge_reload *reload, struct buffer *changes);
