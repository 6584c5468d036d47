/* hf_writer: a directory of model files for tests, with safetensors in one file or in several.
 *
 * Owns:     a new directory below /tmp, removed with all that is in it; the tensors added so far.
 * Thread:   one.
 * Cost:     linear in the bytes; aborts when there is no memory or the disk is full (tests only).
 * Not here: whole models (tiny_folder), invalid files (safetensors_hostile).
 */
#pragma once

#include "config/base/slice.h"

enum { HF_WRITER_TENSORS = 4096, HF_WRITER_DIMS = 4 };

struct hf_writer_tensor {
    char name[128];
    const char *dtype;
    uint32_t dim_count;
    uint64_t shape[HF_WRITER_DIMS];
    size_t begin; /* in `data` */
    size_t bytes;
};

struct hf_writer {
    char path[256];
    int descriptor;
    struct buffer data;
    uint32_t count;
    struct hf_writer_tensor *tensors; /* [HF_WRITER_TENSORS] */
};

void hf_writer_init(struct hf_writer *writer);
/* The same with a directory of the caller's, made if it is not there. */
void hf_writer_open(struct hf_writer *writer, const char *path);
/* Removes the directory and all that is in it. */
void hf_writer_deinit(struct hf_writer *writer);
/* Leaves the directory as it is. */
void hf_writer_close(struct hf_writer *writer);

/* Writes a file, in place of one of that name. */
void hf_writer_file(const struct hf_writer *writer, const char *name, struct slice bytes);
/* Adds a tensor, its shape with the last dimension varying fastest. */
void hf_writer_tensor(struct hf_writer *writer, const char *name, const char *dtype,
                      uint32_t dim_count, const uint64_t *shape, const void *data, size_t bytes);
/* Writes model.safetensors or, for more than one file, an index and the shards, among which the
 * tensors go round. */
void hf_writer_finish(const struct hf_writer *writer, uint32_t files);
/* Writes the tensors of one shard alone: all whose place is `first`, `first` + `every`, … */
void hf_writer_shard(const struct hf_writer *writer, const char *name, uint32_t first,
                     uint32_t every);
