/* sandbox: takes rights from a process for good: user, files, network, system calls.
 *
 * Owns:     nothing.
 * Thread:   the process's only one: the rules apply to the calling thread and to threads that it
 *           starts later. Only sandbox_calls() reaches threads that exist already.
 * Cost:     a handful of system calls at start; the filter costs some 50 ns a system call.
 * Not here: which user a process gets (rights), what edge and engine need (serve_half).
 *
 *   function         when             the process can no longer
 *   sandbox_process  always           gain privileges, be dumped or traced, write a core file
 *   sandbox_user     started as root  be another user or group, or use a capability
 *   sandbox_files    Landlock         open a path outside the given places;
 *                                     ABI 4: use TCP, except to the network's ports;
 *                                     ABI 6: reach other processes by signal or abstract socket
 *   sandbox_group    Landlock         ABI 6: the same, except processes that it forks from now on
 *   sandbox_calls    seccomp          exec, fork, ptrace, mount, signal others; use sockets that it
 *                                     does not need; the engine: change a file's mode or owner
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "config/base/status.h"

/* The leak checker clones a process that stops the threads with ptrace and reads /proc. Builds with
 * a sanitizer therefore allow this. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANDBOX_IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANDBOX_IS_SANITIZED 1
#endif
#endif
#ifndef SANDBOX_IS_SANITIZED
#define SANDBOX_IS_SANITIZED 0
#endif

/* No core file, no new privileges, and not dumpable: even processes of the same user can neither
 * trace it nor read its memory. */
void sandbox_process(void);

/* Becomes this user and group (real, effective, saved), without other groups and capabilities. If
 * it is this user already, it only gives up capabilities. FORBIDDEN when the kernel refuses. */
enum status sandbox_user(uid_t user, gid_t group);

/* The version (ABI) of Landlock in this kernel: 0 = none, 2 = Debian 12, 4 knows TCP, 6 signals. */
int sandbox_landlock(void);

/* What a process may do with a place. */
enum sandbox_access {
    SANDBOX_READ,
    SANDBOX_WRITE, /* also make, change and remove files */
    SANDBOX_NODE,  /* a device node: read, write, ioctl */
};

/* A file or directory that can still be opened, with everything beneath it. */
struct sandbox_place {
    int descriptor; /* borrowed; O_PATH is enough */
    enum sandbox_access access;
};

/* The TCP ports to which a process may connect, at any address. Names are looked up over UDP, which
 * Landlock does not restrict. No ports means no network. */
enum { SANDBOX_PORTS = 16 };
struct sandbox_network {
    uint16_t ports[SANDBOX_PORTS];
    size_t count;
};

/* From now on only the places can be opened by path; open files stay open. The caller keeps the
 * descriptors of the places. `is_leader` says that sandbox_group() sets the rules for signals.
 * UNSUPPORTED when the kernel has no Landlock. */
enum status sandbox_files(const struct sandbox_place *places, size_t count,
                          const struct sandbox_network *network, bool is_leader);

/* For a process whose death must kill processes that it forks: call it before the forks. The signal
 * of PR_SET_PDEATHSIG comes from the dying process, so rules for signals that began after the forks
 * would stop it. Does nothing when Landlock has no rules for signals (before ABI 6). */
enum status sandbox_group(void);

/* Installs a filter in all threads that answers needless system calls with EPERM (calls that it
 * does not know with ENOSYS). The edge may make and connect sockets of AF_UNIX and, with
 * `has_network`, of AF_INET and AF_INET6, and may set modes of files. The engine may not, but with
 * `has_network` it may connect sockets of TCP over AF_INET and AF_INET6.
 * UNSUPPORTED when there is no filter for this processor, when the kernel has none, or when another
 * thread has a filter already; in the last case the calling thread alone gets this one. */
enum status sandbox_calls(bool is_edge, bool has_network);

/* Sets oom_score_adj (-1000 to 1000: the kernel ends processes with a high score first when memory
 * runs out). The engine goes first: its death costs answers, the edge's death costs connections
 * too. Call it before sandbox_files(), after which /proc cannot be opened. */
void sandbox_oom_score(int adjust);
