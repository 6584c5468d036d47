/* rights: who each half runs as, and whose the data directory is.
 *
 * Owns:     the data directory's modes and owners.
 * Thread:   the process's only one; rights_decide forks once when it was started as root.
 * Cost:     a few system calls at start.
 * Not here: giving rights up (sandbox), what a half opens before it does (serve_half).
 *
 *   D/                0700 edge's user: databases, secrets, keys, certificates
 *   D/engine/         0710 engine's user, group of the edge: final records
 *   D/engine/engine.sock  0600 edge's user: only the edge may connect
 *
 * Started by a plain user all three are that user's, and Landlock alone keeps the engine out of D.
 */
#pragma once

#include <sys/types.h>

#include "config/base/status.h"
#include "config/config.h"

struct rights {
    bool is_on;          /* false: sandbox=off, nothing but sandbox_process is done */
    bool is_required;    /* what cannot be given up ends the start */
    int landlock;        /* the kernel's version, 0 = none */
    const char *sandbox; /* for /ready: "landlock", "none" or "off" */
    uid_t own_user;      /* the parent's */
    uid_t edge_user;
    gid_t edge_group;
    uid_t engine_user;
    gid_t engine_group;
};

/* Reads the options, looks the users up, tries in a forked child whether the edge's user reaches
 * what the edge needs. Warns about everything that is weaker than it could be, and how to mend it;
 * with sandbox=required that is FORBIDDEN or UNSUPPORTED instead. The data directory is there. */
enum status rights_decide(struct rights *out, const struct config *config);

/* Makes the data directory (0700) and gives back a descriptor of it. FORBIDDEN, with the command
 * that mends it, when others can reach into it or when it is another user's. */
enum status rights_open_data(const struct config *config, int *out);

/* D becomes the edge's: what root or the edge's former user made in it changes its owner (plain
 * files of one name, and D/tls). Nothing is followed out of D. Nothing when started by a plain
 * user. */
enum status rights_give_data(const struct rights *rights, int data);

/* Makes D/engine and gives back a descriptor of it, the engine's own. */
enum status rights_open_state(const struct rights *rights, int data, int *out);
