/* sandbox: what the kernel takes from a process for good: user, files, network, system calls.
 *
 * Owns:     nothing; every call is for the calling thread and all that it starts later, so it is
 *           made while there is one thread, but for a driver's (sandbox_calls). Nothing here can
 *           be taken back.
 * Thread:   the process's only one.
 * Cost:     a handful of system calls at start; the filter costs some 50 ns a system call.
 * Not here: who runs as whom and what each half needs (rights, serve_half).
 *
 *   sandbox_process   always           no new privileges, not dumpable, no core file
 *   sandbox_user      started as root  user, group, no others, no capability
 *   sandbox_files     Landlock         no file but beneath the places; ABI 4: no TCP but to the
 *                                      network's ports;
 *                                      ABI 6: no signal and no abstract socket to others
 *   sandbox_group     Landlock         ABI 6: the same, but to those it forks from here on
 *   sandbox_calls     seccomp          no exec, no fork, no ptrace, no mount, no foreign signal, no
 *                                      socket (or only Unix sockets, and the network's), no change
 *                                      of a file's mode
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "config/base/status.h"

/* The leak checker stops threads with ptrace from a process that it clones, and reads /proc: builds
 * with it leave that open. */
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

/* Non-dumpable: no core, and nobody else's ptrace or /proc/PID/mem, of the same user neither. */
void sandbox_process(void);

/* Becomes this user and group alone, real, effective and saved, with no capability left. With the
 * user that it has already, only capabilities are given up. FORBIDDEN when the kernel refuses. */
enum status sandbox_user(uid_t user, gid_t group);

/* Landlock's version in this kernel: 0 = none, 2 = Debian 12, 4 has TCP, 6 has signals. */
int sandbox_landlock(void);

/* What may be done with a place. */
enum sandbox_access {
    SANDBOX_READ,
    SANDBOX_WRITE, /* files are made, changed and removed, too */
    SANDBOX_NODE,  /* a device node: read, written, asked by ioctl */
};

/* A file or directory that stays reachable, with everything beneath it. */
struct sandbox_place {
    int descriptor; /* borrowed; O_PATH is enough */
    enum sandbox_access access;
};

/* Where a process may connect to over TCP: ports, whatever the address; names are asked for by UDP,
 * which Landlock does not know. None: no network. */
enum { SANDBOX_PORTS = 16 };
struct sandbox_network {
    uint16_t ports[SANDBOX_PORTS];
    size_t count;
};

/* Nothing but the places can be opened by path from here on; what is open already stays open.
 * UNSUPPORTED where the kernel has no Landlock. */
enum status sandbox_files(const struct sandbox_place *places, size_t count,
                          const struct sandbox_network *network, bool is_leader);

/* Before the forks of one whose death shall kill them: the signal of PR_SET_PDEATHSIG is one of its
 * own, which a sandbox_files would keep from them; as `is_leader` it leaves that to this. No new
 * privileges from here on. Nothing where Landlock has no rules of signals. */
enum status sandbox_group(void);

/* System calls that neither half needs are answered with EPERM. The edge may make and connect
 * sockets of AF_UNIX and set its files' modes; the engine may do neither. With `has_network` it may
 * make sockets of AF_INET and AF_INET6 too. For all threads that there are. UNSUPPORTED where there
 * is no filter for this processor, or none in the kernel; or where another thread has a filter of
 * its own: then the calling one alone has this. */
enum status sandbox_calls(bool is_edge, bool has_network);

/* The engine is what the kernel should end first when memory runs out: its death costs answers,
 * the edge's death costs connections. Before sandbox_files. */
void sandbox_oom_score(int adjust);
