/* rights: the users that edge and engine run as, and the owners of the data directory D.
 *
 * Owns:     the modes and owners of the files in D.
 * Thread:   the process's only one. rights_decide forks once when the server was started as root.
 * Cost:     a few system calls at start.
 * Not here: giving rights up (sandbox), what a process opens before that (serve_half).
 *
 *   D/                    0700 edge's user: databases, secrets, keys, certificates
 *   D/engine/             0710 engine's user, edge's group: final records
 *   D/engine/engine.sock  0600 edge's user: only the edge may connect
 *
 * When a plain user starts the server, all three belong to that user, and Landlock alone keeps the
 * engine out of D.
 */
#pragma once

#include <sys/types.h>

#include "config/base/status.h"
#include "config/config.h"

struct rights {
    bool is_on;          /* false with sandbox=off: then only sandbox_process applies */
    bool is_required;    /* the start fails when a right cannot be given up */
    int landlock;        /* the kernel's version of Landlock, 0 = none */
    const char *sandbox; /* what /ready shows: "landlock", "none" or "off" */
    uid_t own_user;      /* the user that started the server */
    uid_t edge_user;
    gid_t edge_group;
    uid_t engine_user;
    gid_t engine_group;
};

/* Decides the rights from the options and the system's users; a forked child tries whether the
 * edge's user can read what the edge needs. The data directory must exist. Warns about every
 * weakness and says how to mend it; with sandbox=required a weakness is FORBIDDEN instead. INVALID
 * when --sandbox has another value, or when edge and engine would be the same user. */
enum status rights_decide(struct rights *out, const struct config *config);

/* Makes the data directory (0700) if there is none, and opens it; the caller closes `*out`.
 * FORBIDDEN, with the command that mends it, when other users can read it or one of them owns
 * it. */
enum status rights_open_data(const struct config *config, int *out);

/* Gives D and D/tls to the edge's user, with the plain files in them that belong to root or to the
 * directory's former owner. Links are not followed. Does nothing unless root started the server. */
enum status rights_give_data(const struct rights *rights, int data);

/* Makes D/engine if there is none, gives it to the engine's user and opens it; the caller closes
 * `*out`. */
enum status rights_open_state(const struct rights *rights, int data, int *out);
