#include "kernels/cuda/cuda_nodes.h"

#include "tests/unit/base_kit.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PLACES_MAX = 64 };

struct places {
    char paths[PLACES_MAX][256];
    bool is_node[PLACES_MAX];
    size_t count;
};

static void on_place(void *context, const char *path, bool is_node)
{
    struct places *places = context;
    assert_true(places->count < PLACES_MAX);
    snprintf(places->paths[places->count], sizeof places->paths[0], "%s", path);
    places->is_node[places->count++] = is_node;
}

static int times(const struct places *places, const char *path, bool is_node)
{
    int count = 0;
    for (size_t i = 0; i < places->count; i++)
        count += strcmp(places->paths[i], path) == 0 && places->is_node[i] == is_node;
    return count;
}

/* A folder with the nodes of two devices and what belongs to all, each opened twice as a driver
 * does, and the driver's facts about the first device. */
struct machine {
    char folder[64];
    char prefix[96];
    char proc[96];
    int descriptors[8];
    size_t count;
};

static const char *const names[] = {"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"};
enum { NAMES = sizeof names / sizeof names[0] };

static void machine_write(const struct machine *machine, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", machine->folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
}

static void machine_folder(const struct machine *machine, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", machine->folder, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void machine_open(struct machine *machine, const char *information)
{
    char path[256];
    *machine = (struct machine){.folder = "/tmp/cuda_nodes.XXXXXX"};
    assert_non_null(mkdtemp(machine->folder));
    snprintf(machine->prefix, sizeof machine->prefix, "%s/nvidia", machine->folder);
    snprintf(machine->proc, sizeof machine->proc, "%s/proc", machine->folder);
    for (size_t i = 0; i < 2 * (size_t)NAMES; i++) {
        machine_write(machine, names[i % NAMES], "");
        snprintf(path, sizeof path, "%s/%s", machine->folder, names[i % NAMES]);
        machine->descriptors[machine->count++] = open(path, O_RDWR | O_CLOEXEC);
    }
    machine_folder(machine, "proc");
    machine_folder(machine, "proc/gpus");
    machine_folder(machine, "proc/gpus/0000:3b:00.0");
    if (information != NULL)
        machine_write(machine, "proc/gpus/0000:3b:00.0/information", information);
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *walk)
{
    (void)about;
    (void)kind;
    (void)walk;
    return remove(path);
}

static void machine_close(struct machine *machine)
{
    for (size_t i = 0; i < machine->count; i++)
        close(machine->descriptors[i]);
    assert_int_equal(nftw(machine->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static struct places look(const struct machine *machine, const char *bus)
{
    struct places places = {.count = 0};
    const struct cuda_nodes nodes = {.prefix = machine->prefix, .bus = bus, .proc = machine->proc};
    cuda_nodes_each(&nodes, on_place, &places);
    return places;
}

static int times_named(const struct machine *machine, const struct places *places, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", machine->folder, name);
    return times(places, path, true);
}

static void test_nodes_are_those_of_the_device_alone(void **state)
{
    (void)state;
    struct machine machine;
    machine_open(&machine, "Model: \t\t H100\nDevice Minor: \t 1\nGPU Excluded:\t No\n");
    const struct places places = look(&machine, "0000:3b:00.0");
    assert_int_equal(times_named(&machine, &places, "nvidia0"), 0);
    assert_int_equal(times_named(&machine, &places, "nvidia1"), 1);
    assert_int_equal(times_named(&machine, &places, "nvidiactl"), 1);
    assert_int_equal(times_named(&machine, &places, "nvidia-uvm"), 1);
    assert_int_equal(times(&places, machine.proc, false), 1);
    assert_int_equal(times(&places, "/sys/bus/pci/devices", false), 1);
    assert_int_equal(times(&places, "/sys/bus/pci/devices/0000:3b:00.0", false), 1);
    assert_int_equal(places.count, 6);
    machine_close(&machine);
}

static void test_without_the_drivers_facts_all_open_nodes_stay(void **state)
{
    (void)state;
    static const char *const facts[] = {NULL, "", "Model: H100\n"};
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++) {
        struct machine machine;
        machine_open(&machine, facts[i]);
        const struct places places = look(&machine, i == 0 ? "" : "0000:3b:00.0");
        for (size_t n = 0; n < NAMES; n++)
            assert_int_equal(times_named(&machine, &places, names[n]), 1);
        machine_close(&machine);
    }
}

static void test_what_is_not_open_is_no_place(void **state)
{
    (void)state;
    struct machine machine;
    machine_open(&machine, NULL);
    close(machine.descriptors[2]);
    close(machine.descriptors[2 + NAMES]);
    machine.descriptors[2] = machine.descriptors[2 + NAMES] = -1;
    const struct places places = look(&machine, "");
    assert_int_equal(times_named(&machine, &places, "nvidiactl"), 0);
    assert_int_equal(times_named(&machine, &places, "nvidia-uvm"), 1);
    machine_close(&machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes_are_those_of_the_device_alone),
        cmocka_unit_test(test_without_the_drivers_facts_all_open_nodes_stay),
        cmocka_unit_test(test_what_is_not_open_is_no_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
