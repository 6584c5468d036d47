#include "gateway/serve/sandbox.h"

#include "tests/unit/serve_kit.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <termios.h>

static const struct sandbox_network no_network;

#define PERSONALITY_ASK 0xffffffffUL /* changes nothing; the filter denies the call */

struct place_test {
    char folder[64];
    enum sandbox_access access;
};

static void process_body(void *context)
{
    (void)context;
    sandbox_process();
    struct rlimit core;
    CHILD_CHECK(getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_cur == 0 && core.rlim_max == 0);
    CHILD_CHECK(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0);
    CHILD_CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
}

static void test_every_process_gives_up_cores(void **state)
{
    (void)state;
    assert_int_equal(serve_kit_child(process_body, NULL), 0);
}

static void oom_body(void *context)
{
    (void)context;
    serve_kit_become(SERVE_KIT_USER);
    sandbox_process();
    sandbox_oom_score(321);
    CHILD_CHECK(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0);
    CHILD_CHECK(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0);
    char text[16] = "";
    int descriptor = open("/proc/self/oom_score_adj", O_RDONLY);
    CHILD_CHECK(descriptor >= 0 && read(descriptor, text, sizeof text - 1) > 0);
    CHILD_CHECK(strcmp(text, "321\n") == 0);
}

static void test_the_kernel_is_told_whom_to_end_first(void **state)
{
    (void)state;
    assert_int_equal(serve_kit_child(oom_body, NULL), 0);
}

/* Forks one that stands still in a sandbox of its own, then is killed itself. `context`: a pipe's
 * writing end, which the fork keeps open as long as it lives. */
static void group_body(void *context)
{
    const int *ends = context;
    CHILD_CHECK(sandbox_group() == STATUS_OK);
    pid_t parent = getpid();
    pid_t pid = fork();
    CHILD_CHECK(pid >= 0);
    bool is_leader = pid > 0;
    if (is_leader)
        close(ends[1]);
    else
        CHILD_CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent);
    sandbox_process();
    CHILD_CHECK(sandbox_files(NULL, 0, &no_network, is_leader) == STATUS_OK);
    int told = kill(getppid(), 0); /* the test; of the other, who leads it */
    CHILD_CHECK(sandbox_landlock() < 6 || (told < 0 && errno == EPERM));
    if (is_leader) {
        int status = 0;
        CHILD_CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
        raise(SIGKILL);
    }
    raise(SIGSTOP);
}

/* Whoever it leads ends with it, though in a sandbox of its own, and stopped. */
static void test_a_group_ends_with_its_leader(void **state)
{
    (void)state;
    int ends[2];
    char byte;
    if (sandbox_landlock() == 0)
        skip();
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setsid(); /* else the kernel continues a stopped group that nobody leads any more */
        group_body(ends);
        _exit(1);
    }
    close(ends[1]);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    struct pollfd end = {.fd = ends[0], .events = POLLIN};
    assert_int_equal(poll(&end, 1, 60000), 1);
    assert_int_equal(read(ends[0], &byte, 1), 0);
    close(ends[0]);
}

static void user_body(void *context)
{
    (void)context;
    uid_t user = geteuid() == 0 ? SERVE_KIT_USER : geteuid();
    gid_t group = geteuid() == 0 ? SERVE_KIT_USER : getegid();
    bool was_root = geteuid() == 0;
    CHILD_CHECK(sandbox_user(user, group) == STATUS_OK);
    CHILD_CHECK(getuid() == user && geteuid() == user && getgid() == group && getegid() == group);
    CHILD_CHECK(!was_root || getgroups(0, NULL) == 0);
    CHILD_CHECK_FAILS(setuid(0), EPERM);
    CHILD_CHECK_FAILS(setgid(0), EPERM);
    CHILD_CHECK_FAILS(open("/etc/shadow", O_RDONLY), EACCES);
}

/* Root that stays root is no longer one that may do everything. */
static void user_root_body(void *context)
{
    char *folder = context;
    char path[128];
    snprintf(path, sizeof path, "%s/theirs", folder);
    if (geteuid() == 0)
        CHILD_CHECK(chown(path, SERVE_KIT_USER, SERVE_KIT_USER) == 0);
    CHILD_CHECK(sandbox_user(geteuid(), getegid()) == STATUS_OK);
    if (geteuid() == 0)
        CHILD_CHECK_FAILS(open(path, O_RDONLY), EACCES);
    CHILD_CHECK_FAILS(chown(path, 1, 1), EPERM);
    CHILD_CHECK_FAILS(sethostname("x", 1), EPERM);
}

static void user_refused_body(void *context)
{
    (void)context;
    serve_kit_become(SERVE_KIT_USER);
    CHILD_CHECK(sandbox_user(SERVE_KIT_OTHER, SERVE_KIT_OTHER) == STATUS_FORBIDDEN);
}

static void test_a_user_is_taken_on_for_good(void **state)
{
    (void)state;
    char folder[64];
    serve_kit_folder(folder);
    serve_kit_file(folder, "theirs", 0600);
    assert_int_equal(serve_kit_child(user_body, NULL), 0);
    assert_int_equal(serve_kit_child(user_refused_body, NULL), 0);
    assert_int_equal(serve_kit_child(user_root_body, folder), 0);
    serve_kit_remove(folder);
}

static void files_body(void *context)
{
    const struct place_test *test = context;
    char path[128];
    snprintf(path, sizeof path, "%s/in", test->folder);
    int before = open("/etc/passwd", O_RDONLY);
    int place = open(path, O_PATH);
    CHILD_CHECK(before >= 0 && place >= 0);
    sandbox_process();
    CHILD_CHECK(sandbox_files(&(struct sandbox_place){place, test->access}, 1, &no_network,
                              false) == STATUS_OK);
    char byte;
    CHILD_CHECK(read(before, &byte, 1) == 1); /* what was open stays open */
    CHILD_CHECK_FAILS(open("/etc/passwd", O_RDONLY), EACCES);
    CHILD_CHECK_FAILS(open("/", O_RDONLY), EACCES);
    snprintf(path, sizeof path, "%s/out", test->folder);
    CHILD_CHECK_FAILS(open(path, O_RDONLY), EACCES);
    CHILD_CHECK_FAILS(unlink(path), EACCES);
    snprintf(path, sizeof path, "%s/in/file", test->folder);
    CHILD_CHECK(open(path, O_RDONLY) >= 0);
    snprintf(path, sizeof path, "%s/in/new", test->folder);
    int made = open(path, O_WRONLY | O_CREAT, 0600);
    CHILD_CHECK(test->access == SANDBOX_WRITE ? made >= 0 && unlink(path) == 0
                                              : made < 0 && errno == EACCES);
    snprintf(path, sizeof path, "%s/in/link", test->folder);
    CHILD_CHECK_FAILS(symlink("/etc/passwd", path), EACCES);
}

/* A device node is opened again, and asked by ioctl, where it is a place of that kind. */
static void node_body(void *context)
{
    const struct place_test *test = context;
    struct termios unused;
    int before = open("/dev/null", O_RDWR);
    int place = open("/dev/zero", O_PATH);
    CHILD_CHECK(before >= 0 && place >= 0);
    sandbox_process();
    CHILD_CHECK(sandbox_files(&(struct sandbox_place){place, test->access}, 1, &no_network,
                              false) == STATUS_OK);
    CHILD_CHECK_FAILS(open("/dev/null", O_RDWR), EACCES);
    int node = open("/dev/zero", O_RDWR);
    if (test->access == SANDBOX_READ) {
        CHILD_CHECK(node < 0 && errno == EACCES);
        node = open("/dev/zero", O_RDONLY);
        int asked = ioctl(node, TCGETS, &unused);
        CHILD_CHECK(asked < 0 && errno == (sandbox_landlock() < 5 ? ENOTTY : EACCES));
        return;
    }
    CHILD_CHECK(node >= 0);
    CHILD_CHECK_FAILS(ioctl(node, TCGETS, &unused), ENOTTY); /* the node's own answer */
}

static void test_a_device_node_is_asked_again(void **state)
{
    (void)state;
    struct place_test test = {.access = SANDBOX_NODE};
    if (sandbox_landlock() == 0)
        return; /* test_files_out_of_reach says that this is told */
    assert_int_equal(serve_kit_child(node_body, &test), 0);
    test.access = SANDBOX_READ;
    assert_int_equal(serve_kit_child(node_body, &test), 0);
}

/* From ABI 4 on; before it, sockets are denied by sandbox_calls alone. */
static void network_body(void *context)
{
    (void)context;
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int server = socket(AF_INET, SOCK_STREAM, 0);
    int other = socket(AF_INET, SOCK_STREAM, 0);
    int client = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t length = sizeof name;
    CHILD_CHECK(bind(server, (struct sockaddr *)&name, sizeof name) == 0);
    CHILD_CHECK(listen(server, 1) == 0);
    CHILD_CHECK(getsockname(server, (struct sockaddr *)&name, &length) == 0);
    sandbox_process();
    CHILD_CHECK(sandbox_files(NULL, 0, &no_network, false) == STATUS_OK);
    int connected = connect(client, (struct sockaddr *)&name, sizeof name);
    CHILD_CHECK(sandbox_landlock() < 4 || (connected < 0 && errno == EACCES));
    name.sin_port = 0;
    int bound = bind(other, (struct sockaddr *)&name, sizeof name);
    CHILD_CHECK(sandbox_landlock() < 4 || (bound < 0 && errno == EACCES));
    int killed = kill(getppid(), 0);
    CHILD_CHECK(sandbox_landlock() < 6 || (killed < 0 && errno == EPERM));
}

/* Of two servers the one whose port the process was given is reached, and internet sockets can be
 * made at all; other families cannot. */
static void ports_body(void *context)
{
    (void)context;
    struct sockaddr_in names[2];
    int clients[2];
    for (int i = 0; i < 2; i++) {
        socklen_t length = sizeof names[i];
        names[i] =
            (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int server = socket(AF_INET, SOCK_STREAM, 0);
        CHILD_CHECK(bind(server, (struct sockaddr *)&names[i], sizeof names[i]) == 0);
        CHILD_CHECK(listen(server, 1) == 0);
        CHILD_CHECK(getsockname(server, (struct sockaddr *)&names[i], &length) == 0);
    }
    const struct sandbox_network network = {.ports = {ntohs(names[1].sin_port)}, .count = 1};
    sandbox_process();
    CHILD_CHECK(sandbox_landlock() == 0 || sandbox_files(NULL, 0, &network, false) == STATUS_OK);
    CHILD_CHECK(sandbox_calls(true, true) == STATUS_OK);
    for (int i = 0; i < 2; i++)
        clients[i] = socket(AF_INET, SOCK_STREAM, 0);
    int other = connect(clients[0], (struct sockaddr *)&names[0], sizeof names[0]);
    CHILD_CHECK(sandbox_landlock() < 4 || (other < 0 && errno == EACCES));
    CHILD_CHECK(connect(clients[1], (struct sockaddr *)&names[1], sizeof names[1]) == 0);
    CHILD_CHECK(socket(AF_INET6, SOCK_DGRAM, 0) >= 0 || errno == EAFNOSUPPORT);
    CHILD_CHECK(socket(AF_UNIX, SOCK_STREAM, 0) >= 0);
    CHILD_CHECK_FAILS(socket(AF_NETLINK, SOCK_RAW, 0), EPERM);
    CHILD_CHECK_FAILS(socket(AF_PACKET, SOCK_RAW, 0), EPERM);
}

/* An adapter makes sockets of TCP, and no others. It serves nobody itself. */
static void adapter_body(void *context)
{
    (void)context;
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    sandbox_process();
    CHILD_CHECK(sandbox_calls(false, true) == STATUS_OK);
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHILD_CHECK(client >= 0);
    CHILD_CHECK(socket(AF_INET6, SOCK_STREAM, 0) >= 0 || errno == EAFNOSUPPORT);
    CHILD_CHECK_FAILS(socket(AF_INET, SOCK_DGRAM, 0), EPERM);
    CHILD_CHECK_FAILS(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), EPERM);
    CHILD_CHECK_FAILS(socket(AF_INET, SOCK_RAW, IPPROTO_ICMP), EPERM);
    CHILD_CHECK_FAILS(socket(AF_UNIX, SOCK_STREAM, 0), EPERM);
    CHILD_CHECK_FAILS(bind(client, (struct sockaddr *)&name, sizeof name), EPERM);
    CHILD_CHECK_FAILS(listen(client, 1), EPERM);
}

static void test_a_network_of_ports(void **state)
{
    (void)state;
    assert_int_equal(serve_kit_child(ports_body, NULL), 0);
    assert_int_equal(serve_kit_child(adapter_body, NULL), 0);
}

/* A kernel without Landlock says so; with it, nothing but the place can be reached. */
static void test_files_out_of_reach(void **state)
{
    (void)state;
    struct place_test test;
    if (sandbox_landlock() == 0) {
        assert_int_equal(sandbox_files(NULL, 0, &no_network, false), STATUS_UNSUPPORTED);
        return;
    }
    serve_kit_folder(test.folder);
    char path[128];
    snprintf(path, sizeof path, "%s/in", test.folder);
    assert_int_equal(mkdir(path, 0700), 0);
    serve_kit_file(path, "file", 0600);
    serve_kit_file(test.folder, "out", 0600);
    test.access = SANDBOX_WRITE;
    assert_int_equal(serve_kit_child(files_body, &test), 0);
    test.access = SANDBOX_READ;
    assert_int_equal(serve_kit_child(files_body, &test), 0);
    assert_int_equal(serve_kit_child(network_body, NULL), 0);
    serve_kit_remove(test.folder);
}

static void files_bad_place_body(void *context)
{
    (void)context;
    sandbox_process();
    enum status wanted = sandbox_landlock() == 0 ? STATUS_UNSUPPORTED : STATUS_IO;
    CHILD_CHECK(sandbox_files(&(struct sandbox_place){-1, SANDBOX_READ}, 1, &no_network, false) ==
                wanted);
    CHILD_CHECK(open("/etc/passwd", O_RDONLY) >= 0); /* nothing was taken */
}

static void test_a_place_that_is_none(void **state)
{
    (void)state;
    assert_int_equal(serve_kit_child(files_bad_place_body, NULL), 0);
}

static void *calls_thread(void *context)
{
    *(int *)context = 1;
    return NULL;
}

struct early {
    bool has_filter;
    int is_there[2]; /* a byte when it is; … */
    int go_on[2];    /* … and one to it */
};

/* As those of a device's driver: there before the filter is. */
static void *early_thread(void *context)
{
    const struct early *early = context;
    struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const struct sock_fprog own = {.len = 1, .filter = &all};
    char byte = 0;
    if (early->has_filter)
        CHILD_CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &own, 0, 0) == 0);
    CHILD_CHECK(write(early->is_there[1], "x", 1) == 1);
    CHILD_CHECK(read(early->go_on[0], &byte, 1) == 1);
    if (early->has_filter)
        CHILD_CHECK(personality(PERSONALITY_ASK) >= 0);
    else
        CHILD_CHECK_FAILS(personality(PERSONALITY_ASK), EPERM);
    return NULL;
}

static void early_body(void *context)
{
    struct early early = {.has_filter = *(const bool *)context};
    char byte = 0;
    pthread_t thread;
    CHILD_CHECK(pipe(early.is_there) == 0 && pipe(early.go_on) == 0);
    sandbox_process();
    CHILD_CHECK(pthread_create(&thread, NULL, early_thread, &early) == 0);
    CHILD_CHECK(read(early.is_there[0], &byte, 1) == 1);
    enum status wanted = early.has_filter ? STATUS_UNSUPPORTED : STATUS_OK;
    CHILD_CHECK(sandbox_calls(false, false) == wanted);
    CHILD_CHECK_FAILS(personality(PERSONALITY_ASK), EPERM); /* this one has it in any case */
    CHILD_CHECK(write(early.go_on[1], "x", 1) == 1);
    CHILD_CHECK(pthread_join(thread, NULL) == 0);
}

static void calls_body(void *context)
{
    bool is_edge = *(const bool *)context;
    char folder[64] = "/tmp/banyan-calls-XXXXXX";
    CHILD_CHECK(mkdtemp(folder) != NULL);
    sandbox_process();
    CHILD_CHECK(sandbox_calls(is_edge, false) == STATUS_OK);
    char *arguments[] = {"true", NULL};
    CHILD_CHECK_FAILS(execv("/bin/true", arguments), EPERM);
    CHILD_CHECK_FAILS(kill(getppid(), 0), EPERM);
    CHILD_CHECK_FAILS(syscall(SYS_tgkill, getppid(), getppid(), 0), EPERM);
    CHILD_CHECK(syscall(SYS_tgkill, getpid(), getpid(), 0) == 0);
    CHILD_CHECK_FAILS(unshare(CLONE_NEWUSER), EPERM);
    CHILD_CHECK_FAILS(mount("none", folder, "tmpfs", 0, NULL), EPERM);
    CHILD_CHECK_FAILS(socket(AF_INET, SOCK_DGRAM, 0), EPERM);
    CHILD_CHECK_FAILS(socket(AF_NETLINK, SOCK_RAW, 0), EPERM);
    CHILD_CHECK_FAILS(ioctl(0, TIOCSTI, "x"), EPERM);
#if !SANDBOX_IS_SANITIZED
    CHILD_CHECK_FAILS(ptrace(PTRACE_TRACEME, 0, NULL, NULL), EPERM);
    CHILD_CHECK_FAILS(fork(), EPERM);
#endif
    int local = socket(AF_UNIX, SOCK_STREAM, 0);
    CHILD_CHECK(is_edge ? local >= 0 : local < 0 && errno == EPERM);
    int failed = chmod(folder, 0755);
    CHILD_CHECK(is_edge ? failed == 0 : failed < 0 && errno == EPERM);
    enum { FCHMODAT2 = 452 }; /* Linux 6.6; the C library's headers may be older */
    CHILD_CHECK_FAILS(syscall(FCHMODAT2, AT_FDCWD, folder, 0700, 0), ENOSYS);
    struct rlimit files;
    CHILD_CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
    CHILD_CHECK_FAILS(prlimit(getppid(), RLIMIT_NOFILE, NULL, &files), EPERM);
#if defined(__x86_64__)
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_TILEDATA = 18 }; /* an engine's, for AMX */
    CHILD_CHECK(syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_TILEDATA) == 0 ||
                errno != EPERM);
#endif
    int has_run = 0;
    pthread_t thread;
    CHILD_CHECK(pthread_create(&thread, NULL, calls_thread, &has_run) == 0);
    CHILD_CHECK(pthread_join(thread, NULL) == 0 && has_run == 1);
    CHILD_CHECK(rmdir(folder) == 0);
}

static void test_calls_that_nobody_needs(void **state)
{
    (void)state;
    bool is_edge = true;
    assert_int_equal(serve_kit_child(calls_body, &is_edge), 0);
    is_edge = false;
    assert_int_equal(serve_kit_child(calls_body, &is_edge), 0);
}

static void test_threads_that_are_there_before(void **state)
{
    (void)state;
    bool has_filter = false;
    assert_int_equal(serve_kit_child(early_body, &has_filter), 0);
    has_filter = true; /* which cannot be taken from it */
    assert_int_equal(serve_kit_child(early_body, &has_filter), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_process_gives_up_cores),
        cmocka_unit_test(test_the_kernel_is_told_whom_to_end_first),
        cmocka_unit_test(test_a_group_ends_with_its_leader),
        cmocka_unit_test(test_a_user_is_taken_on_for_good),
        cmocka_unit_test(test_files_out_of_reach),
        cmocka_unit_test(test_a_device_node_is_asked_again),
        cmocka_unit_test(test_a_network_of_ports),
        cmocka_unit_test(test_a_place_that_is_none),
        cmocka_unit_test(test_calls_that_nobody_needs),
        cmocka_unit_test(test_threads_that_are_there_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
