#include "gateway/serve/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

void sandbox_process(void)
{
    struct rlimit none = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* A process that is not dumpable may not write its files in /proc. */
void sandbox_oom_score(int adjust)
{
    char text[16];
    int length = snprintf(text, sizeof text, "%d", adjust);
    int was_dumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    int descriptor = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (descriptor >= 0) {
        ssize_t written = write(descriptor, text, (size_t)length);
        (void)written; /* without it the kernel chooses by size */
        close(descriptor);
    }
    if (was_dumpable == 0)
        (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* --- user --- */

static enum status user_drop_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
    if (syscall(SYS_capset, &header, none) != 0)
        FAIL(STATUS_FORBIDDEN, "capabilities cannot be given up: %s", strerrordesc_np(errno));
    return STATUS_OK;
}

enum status sandbox_user(uid_t user, gid_t group)
{
    if (geteuid() == 0) {
        if (user != 0 && setgroups(0, NULL) != 0)
            FAIL(STATUS_FORBIDDEN, "groups cannot be given up: %s", strerrordesc_np(errno));
        if (setresgid(group, group, group) != 0 || setresuid(user, user, user) != 0)
            FAIL(STATUS_FORBIDDEN, "the process cannot become user %d: %s", (int)user,
                 strerrordesc_np(errno));
    }
    TRY(user_drop_capabilities());
    uid_t real = 0;
    uid_t effective = 0;
    uid_t saved = 0;
    if (getresuid(&real, &effective, &saved) != 0 || real != user || effective != user ||
        saved != user || (user != 0 && setuid(0) == 0))
        FAIL(STATUS_FORBIDDEN, "the process did not become user %d", (int)user);
    return STATUS_OK;
}

/* --- Landlock --- */

/* The structure and the bits of Landlock's ABI 6. Debian 12's header knows ABI 2 only. */
struct landlock_rules {
    uint64_t files;
    uint64_t network;
    uint64_t scopes;
};
enum {
    LANDLOCK_RULES_BYTES_2 = 8, /* what kernels of ABI 1 to 3 take */
    LANDLOCK_RULES_BYTES_4 = 16,
    LANDLOCK_RULES_BYTES_6 = 24,
};
#define LANDLOCK_FILES_ABI_1 ((UINT64_C(1) << 13) - 1)
#define LANDLOCK_REFER       (UINT64_C(1) << 13) /* ABI 2 */
#define LANDLOCK_TRUNCATE    (UINT64_C(1) << 14) /* ABI 3 */
#define LANDLOCK_IOCTL_DEV   (UINT64_C(1) << 15) /* ABI 5 */
#define LANDLOCK_TCP         UINT64_C(3)         /* bind and connect, ABI 4 */
#define LANDLOCK_CONNECT     UINT64_C(2)
#define LANDLOCK_SCOPES      UINT64_C(3) /* abstract sockets and signals, ABI 6 */
#define LANDLOCK_READ        (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define LANDLOCK_WRITE                                                                             \
    (LANDLOCK_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE |              \
     LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR |   \
     LANDLOCK_TRUNCATE)
#define LANDLOCK_NODE                                                                              \
    (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_IOCTL_DEV)
#define LANDLOCK_OF_A_FILE (LANDLOCK_NODE | LANDLOCK_TRUNCATE)

int sandbox_landlock(void)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    return version < 0 ? 0 : (int)version;
}

static const uint64_t files_allowed[] = {
    [SANDBOX_READ] = LANDLOCK_READ,
    [SANDBOX_WRITE] = LANDLOCK_WRITE,
    [SANDBOX_NODE] = LANDLOCK_NODE,
};

static enum status files_allow(int rules, const struct landlock_rules *all,
                               const struct sandbox_place *place)
{
    struct stat about;
    if (fstat(place->descriptor, &about) != 0)
        FAIL(STATUS_IO, "a place of the sandbox: %s", strerrordesc_np(errno));
    uint64_t allowed = files_allowed[place->access];
    if (!S_ISDIR(about.st_mode))
        allowed &= LANDLOCK_OF_A_FILE;
    struct landlock_path_beneath_attr rule = {.allowed_access = allowed & all->files,
                                              .parent_fd = place->descriptor};
    if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0)
        FAIL(STATUS_IO, "a place of the sandbox: %s", strerrordesc_np(errno));
    return STATUS_OK;
}

/* A rule for a port, which Debian 12's header lacks. */
struct landlock_port {
    uint64_t allowed_access;
    uint64_t port;
};
enum { LANDLOCK_RULE_PORT = 2 };

static enum status files_allow_ports(int rules, const struct sandbox_network *network)
{
    for (size_t i = 0; i < network->count; i++) {
        struct landlock_port rule = {LANDLOCK_CONNECT, network->ports[i]};
        if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PORT, &rule, 0) != 0)
            FAIL(STATUS_IO, "a port of the sandbox: %s", strerrordesc_np(errno));
    }
    return STATUS_OK;
}

static enum status files_restrict(int rules)
{
    if (syscall(SYS_landlock_restrict_self, rules, 0) != 0)
        FAIL(STATUS_UNSUPPORTED, "Landlock: %s", strerrordesc_np(errno));
    return STATUS_OK;
}

enum status sandbox_group(void)
{
    const struct landlock_rules all = {.scopes = LANDLOCK_SCOPES};
    if (sandbox_landlock() < 6)
        return STATUS_OK;
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    int rules = (int)syscall(SYS_landlock_create_ruleset, &all, LANDLOCK_RULES_BYTES_6, 0);
    if (rules < 0)
        FAIL(STATUS_UNSUPPORTED, "Landlock: %s", strerrordesc_np(errno));
    enum status status = files_restrict(rules);
    close(rules);
    return status;
}

enum status sandbox_files(const struct sandbox_place *places, size_t count,
                          const struct sandbox_network *network, bool is_leader)
{
    int version = sandbox_landlock();
    if (version == 0)
        FAIL(STATUS_UNSUPPORTED, "this kernel has no Landlock");
    struct landlock_rules all = {.files = LANDLOCK_FILES_ABI_1};
    size_t bytes = LANDLOCK_RULES_BYTES_2;
    if (version >= 2)
        all.files |= LANDLOCK_REFER;
    if (version >= 3)
        all.files |= LANDLOCK_TRUNCATE;
    if (version >= 5)
        all.files |= LANDLOCK_IOCTL_DEV;
    if (version >= 4) {
        all.network = LANDLOCK_TCP;
        bytes = LANDLOCK_RULES_BYTES_4;
    }
    if (version >= 6) {
        all.scopes = is_leader ? 0 : LANDLOCK_SCOPES;
        bytes = LANDLOCK_RULES_BYTES_6;
    }
    int rules = (int)syscall(SYS_landlock_create_ruleset, &all, bytes, 0);
    if (rules < 0)
        FAIL(STATUS_UNSUPPORTED, "Landlock: %s", strerrordesc_np(errno));
    enum status status = STATUS_OK;
    for (size_t i = 0; i < count && status == STATUS_OK; i++)
        status = files_allow(rules, &all, &places[i]);
    if (status == STATUS_OK && all.network != 0)
        status = files_allow_ports(rules, network);
    if (status == STATUS_OK)
        status = files_restrict(rules);
    close(rules);
    return status;
}

/* --- system calls --- */

#if defined(__x86_64__)
#define CALLS_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define CALLS_ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

#ifdef CALLS_ARCHITECTURE

/* System calls that an attacker would want and that neither edge nor engine uses. */
/* clang-format off */
static const uint32_t calls_denied[] = {
    SYS_execve, SYS_execveat, SYS_unshare, SYS_setns, SYS_mount, SYS_umount2, SYS_pivot_root,
    SYS_chroot, SYS_open_tree, SYS_move_mount, SYS_fsopen, SYS_fsmount, SYS_mount_setattr,
    SYS_process_vm_readv, SYS_process_vm_writev, SYS_kill, SYS_tkill, SYS_pidfd_open,
    SYS_pidfd_getfd, SYS_pidfd_send_signal, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_bpf,
    SYS_perf_event_open, SYS_userfaultfd, SYS_keyctl, SYS_add_key, SYS_request_key,
    SYS_io_uring_setup, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load,
    SYS_reboot, SYS_swapon, SYS_swapoff, SYS_acct, SYS_quotactl, SYS_personality, SYS_syslog,
    SYS_open_by_handle_at, SYS_name_to_handle_at,
#ifdef SYS_fork
    SYS_fork, SYS_vfork,
#endif
#if !SANDBOX_IS_SANITIZED
    SYS_ptrace,
#endif
};
/* System calls that change files of the same user by path. Landlock does not restrict them, except
 * SYS_truncate from ABI 3 on. The edge needs them: SQLite sets the modes of the databases. */
static const uint32_t calls_of_files[] = {
    SYS_fchmodat, SYS_fchownat, SYS_setxattr, SYS_lsetxattr, SYS_removexattr, SYS_lremovexattr,
    SYS_utimensat, SYS_truncate,
#ifdef SYS_chmod
    SYS_chmod, SYS_chown, SYS_lchown,
#endif
};
static const uint32_t calls_of_clients[] = {
    SYS_socket, SYS_connect,
};
static const uint32_t calls_of_servers[] = {
    SYS_bind, SYS_listen, SYS_socketpair,
};
/* clang-format on */

enum {
    CALLS_INSTRUCTIONS = 256,
    CALLS_ARGUMENT = offsetof(struct seccomp_data, args), /* low half: little endian */
    /* Numbers from here on are refused: the lists above do not know these newer system calls, and
     * some of them do what the lists deny (fchmodat2 is 452, setxattrat 463). The C library falls
     * back to older calls. The numbers of x32 are greater, so they are refused too. */
    CALLS_UNJUDGED = 452,
};

struct calls {
    struct sock_filter code[CALLS_INSTRUCTIONS];
    unsigned short count;
};

static void calls_add(struct calls *calls, uint32_t code, uint32_t k, uint8_t yes, uint8_t no)
{
    ASSERT(calls->count < CALLS_INSTRUCTIONS);
    calls->code[calls->count++] = (struct sock_filter){(uint16_t)code, yes, no, k};
}

static void calls_load(struct calls *calls, uint32_t offset)
{
    calls_add(calls, BPF_LD | BPF_W | BPF_ABS, offset, 0, 0);
}

static void calls_return(struct calls *calls, uint32_t result)
{
    calls_add(calls, BPF_RET | BPF_K, result, 0, 0);
}

#define CALLS_REFUSE(error) (SECCOMP_RET_ERRNO | (error))

/* if (nr == number) return error; */
static void calls_refuse(struct calls *calls, uint32_t number, uint32_t error)
{
    calls_add(calls, BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1);
    calls_return(calls, CALLS_REFUSE(error));
}

#define CALLS_COUNT(list) (sizeof(list) / sizeof(list)[0])

static void calls_refuse_all(struct calls *calls, const uint32_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        calls_refuse(calls, numbers[i], EPERM);
}

/* if (nr == number) return test(argument, value) ? allow : EPERM; */
static void calls_judge(struct calls *calls, uint32_t number, uint32_t argument, uint32_t test,
                        uint32_t value)
{
    calls_add(calls, BPF_JMP | BPF_JEQ | BPF_K, number, 0, 4);
    calls_load(calls, CALLS_ARGUMENT + 8 * argument);
    calls_add(calls, BPF_JMP | test | BPF_K, value, 1, 0);
    calls_return(calls, CALLS_REFUSE(EPERM));
    calls_return(calls, SECCOMP_RET_ALLOW);
}

/* A socket's family must be AF_UNIX or, with a network, AF_INET or AF_INET6. calls_judge compares
 * with one value only. */
static void calls_judge_socket(struct calls *calls, bool has_network)
{
    uint8_t more = has_network ? 2 : 0;
    calls_add(calls, BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, (uint8_t)(4 + more));
    calls_load(calls, CALLS_ARGUMENT);
    if (has_network) {
        calls_add(calls, BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 3, 0);
        calls_add(calls, BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 2, 0);
    }
    calls_add(calls, BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 1, 0);
    calls_return(calls, CALLS_REFUSE(EPERM));
    calls_return(calls, SECCOMP_RET_ALLOW);
}

/* A socket of an adapter must be of TCP: Landlock holds it to one port then, and does not know
 * other protocols. The low bits of the type say what it is, the others are flags. */
static void calls_judge_tcp(struct calls *calls)
{
    enum { TYPE_BITS = 0xf };
    calls_add(calls, BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 8);
    calls_load(calls, CALLS_ARGUMENT);
    calls_add(calls, BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 1, 0);
    calls_add(calls, BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, 3);
    calls_load(calls, CALLS_ARGUMENT + 8);
    calls_add(calls, BPF_ALU | BPF_AND | BPF_K, TYPE_BITS, 0, 0);
    calls_add(calls, BPF_JMP | BPF_JEQ | BPF_K, SOCK_STREAM, 1, 0);
    calls_return(calls, CALLS_REFUSE(EPERM));
    calls_return(calls, SECCOMP_RET_ALLOW);
}

/* TIOCSTI and TIOCLINUX put bytes into the input of a terminal, whose shell would run them.
 * calls_judge compares with one value only. */
static void calls_judge_ioctl(struct calls *calls)
{
    calls_add(calls, BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 5);
    calls_load(calls, CALLS_ARGUMENT + 8);
    calls_add(calls, BPF_JMP | BPF_JEQ | BPF_K, TIOCSTI, 1, 0);
    calls_add(calls, BPF_JMP | BPF_JEQ | BPF_K, TIOCLINUX, 0, 1);
    calls_return(calls, CALLS_REFUSE(EPERM));
    calls_return(calls, SECCOMP_RET_ALLOW);
}

enum status sandbox_calls(bool is_edge, bool has_network)
{
    struct calls calls = {.count = 0};
    calls_load(&calls, offsetof(struct seccomp_data, arch));
    calls_add(&calls, BPF_JMP | BPF_JEQ | BPF_K, CALLS_ARCHITECTURE, 1, 0);
    calls_return(&calls, SECCOMP_RET_KILL_PROCESS);
    calls_load(&calls, offsetof(struct seccomp_data, nr));
    calls_add(&calls, BPF_JMP | BPF_JGE | BPF_K, CALLS_UNJUDGED, 0, 1);
    calls_return(&calls, CALLS_REFUSE(ENOSYS));
    calls_refuse_all(&calls, calls_denied, CALLS_COUNT(calls_denied));
    if (!is_edge) {
        calls_refuse_all(&calls, calls_of_files, CALLS_COUNT(calls_of_files));
        calls_refuse_all(&calls, calls_of_servers, CALLS_COUNT(calls_of_servers));
        if (!has_network)
            calls_refuse_all(&calls, calls_of_clients, CALLS_COUNT(calls_of_clients));
    }
    /* The flags of clone3 are behind a pointer, where a filter cannot look; without clone3 the C
     * library uses clone. clone must make a thread: this denies processes, and namespaces too,
     * which a thread cannot have of its own. */
    calls_refuse(&calls, SYS_clone3, ENOSYS);
    if (!SANDBOX_IS_SANITIZED)
        calls_judge(&calls, SYS_clone, 0, BPF_JSET, CLONE_THREAD);
    calls_judge(&calls, SYS_tgkill, 0, BPF_JEQ, (uint32_t)getpid());
    /* Only for itself: a limit on another process's CPU time would end in a signal to it. */
    calls_judge(&calls, SYS_prlimit64, 0, BPF_JEQ, 0);
    if (is_edge)
        calls_judge_socket(&calls, has_network);
    else if (has_network)
        calls_judge_tcp(&calls);
    calls_judge_ioctl(&calls);
    calls_return(&calls, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {.len = calls.count, .filter = calls.code};
    /* The filter applies to all threads, also to those that a device's driver has started. If
     * another thread has a filter of its own, TSYNC fails: then this thread alone gets the filter,
     * and the call fails. */
    long other = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
    if (other < 0 || (other > 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0))
        FAIL(STATUS_UNSUPPORTED, "system calls cannot be filtered: %s", strerrordesc_np(errno));
    if (other > 0)
        FAIL(STATUS_UNSUPPORTED, "thread %ld already has a filter of system calls", other);
    return STATUS_OK;
}

#else

enum status sandbox_calls(bool is_edge, bool has_network)
{
    (void)is_edge;
    (void)has_network;
    FAIL(STATUS_UNSUPPORTED, "there is no filter of system calls for this processor");
}

#endif
