#include "gateway/edge/state/edge_heap.h"

#include <malloc.h>

size_t edge_heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd; /* large blocks have mappings of their own */
}
