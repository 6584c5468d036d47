/* cuda_nccl: sums over ranks that each have a device of their own, by NCCL.
 *
 * Owns:     the communicator and the library, libnccl.so.2, opened at run time by its interface of
 *           2.0: builds need none.
 * Thread:   as cuda_backend.
 * Cost:     a sum is one launch on the backend's stream, and stands in graphs of steps.
 * Not here: ranks that share a device, which NCCL refuses: cuda_table sums over the host.
 */
#pragma once

#include "kernels/cuda/cuda_backend.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ranks;
struct cuda_nccl;

/* Every rank calls it at the same time. NULL where one of them has no NCCL, or may not use it: it
 * opens its library by path, and sockets, which --sandbox refuses. UNAVAILABLE: what NCCL says. */
enum status cuda_nccl_open(struct cuda_nccl **out, struct cuda_backend *backend,
                           struct ranks *ranks);
/* A communicator that was opened ends with the process: ncclCommDestroy and ncclCommAbort wait for
 * all ranks of the machine, which end in their own time or have ended. */
void cuda_nccl_close(struct cuda_nccl *nccl);

/* As kernels_all_reduce and kernels_all_gather, which sums parts amid zeros. What fails is the
 * backend's failure. */
void cuda_nccl_reduce(struct cuda_nccl *nccl, const struct all_reduce_args *args);
void cuda_nccl_gather(struct cuda_nccl *nccl, const struct all_gather_args *args);

/* The least and the greatest of what all ranks say, each its `own`; each calls it as often. Nothing
 * is under way on the device. False when a rank has ended: the backend's failure then. */
bool cuda_nccl_agree(struct cuda_nccl *nccl, uint64_t own, uint64_t *least, uint64_t *most);

/* Before the host waits for the device: returns when it is done, or when a rank has ended, for
 * which NCCL would wait without end; that is the backend's failure then. */
void cuda_nccl_wait(struct cuda_nccl *nccl);

#ifdef __cplusplus
}
#endif
