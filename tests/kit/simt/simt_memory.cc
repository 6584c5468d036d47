/* simt_memory: the device's memory, and pinned memory of the host. */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <termios.h>
#include <unistd.h>

#include <map>

#include "tests/kit/simt/cuda_runtime.h"
#include "tests/kit/simt/simt_race.h"

/* Device memory is mapped separately, with an inaccessible page after it, under a protection key
 * that the host's threads may use only while a kernel or a copy runs. So an access that would be a
 * fault on a device, or from the host, is one here. On processors without protection keys only the
 * inaccessible page remains. */
struct place {
    char *mapping;
    size_t mapped;
    size_t bytes;
};

static std::map<uintptr_t, place> places;
static std::map<uintptr_t, size_t> pinned;

static int memory_key()
{
    static const int key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
    return key;
}

bool simt_reach(bool may_reach)
{
    static thread_local bool was;
    const bool before = was;
    if (memory_key() >= 0)
        (void)pkey_set(memory_key(), may_reach ? 0 : PKEY_DISABLE_ACCESS);
    was = may_reach;
    return before;
}

/* A device's driver opens its node again for each mapping and each stream, and controls it by
 * ioctl. A sandbox that does not allow that node refuses one or the other. */
int simt_node_open()
{
    struct termios unused;
    const int descriptor = open(CUDA_DEVICE_NODES, O_RDWR | O_CLOEXEC);
    if (descriptor < 0)
        return -1;
    if (ioctl(descriptor, TCGETS, &unused) != 0 && errno == ENOTTY)
        return descriptor; /* the expected answer of the node */
    close(descriptor);
    return -1;
}

bool simt_node_try()
{
    const int descriptor = simt_node_open();
    return descriptor >= 0 && close(descriptor) == 0;
}

void *simt_memory_take(size_t bytes)
{
    const int node = simt_node_open();
    if (node < 0)
        return nullptr;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t used = (bytes + 255) / 256 * 256;
    const size_t body = (used + page - 1) / page * page;
    char *mapping = (char *)mmap(nullptr, body + page, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_NORESERVE, node, 0);
    close(node);
    if (mapping == MAP_FAILED || mprotect(mapping + body, page, PROT_NONE) != 0) {
        fprintf(stderr, "simt: no memory for device memory\n");
        abort();
    }
    char *begin = mapping + body - used;
    memset(begin, 0xff, used); /* NaN, so that a read of unwritten memory is noticed */
    if (memory_key() >= 0)
        (void)pkey_mprotect(mapping, body, PROT_READ | PROT_WRITE, memory_key());
    places[(uintptr_t)begin] = place{mapping, body + page, bytes};
    return begin;
}

size_t simt_memory_give(void *memory)
{
    const auto found = places.find((uintptr_t)memory);
    if (found == places.end()) {
        fprintf(stderr, "simt: the freed address is not device memory\n");
        abort();
    }
    const place gone = found->second;
    places.erase(found);
    munmap(gone.mapping, gone.mapped);
    return gone.bytes;
}

void *simt_pinned_take(size_t bytes)
{
    void *memory = simt_node_try() ? malloc(bytes) : nullptr;
    if (memory != nullptr)
        pinned[(uintptr_t)memory] = bytes;
    return memory;
}

void simt_pinned_give(void *memory)
{
    if (memory != nullptr && pinned.erase((uintptr_t)memory) == 0) {
        fprintf(stderr, "simt: the freed address is not pinned memory\n");
        abort();
    }
    free(memory);
}

bool simt_is_device(const void *memory)
{
    const uintptr_t at = (uintptr_t)memory;
    const auto next = places.upper_bound(at);
    return next != places.begin() && at - std::prev(next)->first <= std::prev(next)->second.bytes;
}
