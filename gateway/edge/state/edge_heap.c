#include "gateway/edge/state/edge_heap.h"

#include <malloc.h>

size_t edge_heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd; /* hblkhd: large blocks, which are mapped one by one */
}
