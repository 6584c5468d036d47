/* cuda_nccl: sums over ranks that each have a device of their own, by NCCL.
 *
 * Owns:     the communicator and the library, libnccl.so.2, opened at run time by its 2.0
 *           interface, so that builds do not need it.
 * Thread:   as cuda_backend.
 * Cost:     a sum is one launch on the backend's stream, and can be part of a step's graph.
 * Not here: ranks that share a device, which NCCL refuses: cuda_table sums over the host.
 */
#pragma once

#include "kernels/cuda/cuda_backend.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ranks;
struct cuda_nccl;

/* Every rank calls it at the same time. *out is NULL where a rank has no NCCL or may not use it:
 * NCCL opens its library by path and uses sockets, which --sandbox refuses. UNAVAILABLE with NCCL's
 * message. */
enum status cuda_nccl_open(struct cuda_nccl **out, struct cuda_backend *backend,
                           struct ranks *ranks);
/* An open communicator lives until the process ends: ncclCommDestroy and ncclCommAbort wait for all
 * ranks of the machine, which end in their own time or have ended. */
void cuda_nccl_close(struct cuda_nccl *nccl);

/* As kernels_all_reduce and kernels_all_gather; the gather sums parts padded with zeros. Errors
 * become the backend's failure. */
void cuda_nccl_reduce(struct cuda_nccl *nccl, const struct all_reduce_args *args);
void cuda_nccl_gather(struct cuda_nccl *nccl, const struct all_gather_args *args);

/* Returns the least and the greatest of all ranks' `own`; each rank calls it equally often, with no
 * work queued on the device. False when a rank has ended, which becomes the backend's failure. */
bool cuda_nccl_agree(struct cuda_nccl *nccl, uint64_t own, uint64_t *least, uint64_t *most);

/* Called before the host waits for the device: returns when the device is done, or when a rank has
 * ended, for which NCCL would wait for ever. That becomes the backend's failure. */
void cuda_nccl_wait(struct cuda_nccl *nccl);

#ifdef __cplusplus
}
#endif
