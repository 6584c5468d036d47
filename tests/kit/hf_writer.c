#include "tests/kit/hf_writer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DATA_MAX ((size_t)1 << 31)

static _Noreturn void die(const char *what)
{
    perror(what);
    abort();
}

static void begin(struct hf_writer *writer)
{
    writer->descriptor = open(writer->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    writer->tensors = calloc(HF_WRITER_TENSORS, sizeof *writer->tensors);
    if (writer->descriptor < 0 || writer->tensors == NULL)
        die(writer->path);
    buffer_init(&writer->data, DATA_MAX);
}

void hf_writer_init(struct hf_writer *writer)
{
    memset(writer, 0, sizeof *writer);
    snprintf(writer->path, sizeof writer->path, "/tmp/banyan-hf-XXXXXX");
    if (mkdtemp(writer->path) == NULL)
        die(writer->path);
    begin(writer);
}

void hf_writer_open(struct hf_writer *writer, const char *path)
{
    memset(writer, 0, sizeof *writer);
    snprintf(writer->path, sizeof writer->path, "%s", path);
    if (mkdir(path, 0755) != 0 && errno != EEXIST)
        die(path);
    begin(writer);
}

void hf_writer_close(struct hf_writer *writer)
{
    close(writer->descriptor);
    free(writer->tensors);
    buffer_deinit(&writer->data);
}

/* Removes the files of a folder; of its folders those that are empty then, one level down. */
static void remove_files(const char *path, bool is_top)
{
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        char name[600];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        if (unlink(name) == 0)
            continue;
        if (is_top)
            remove_files(name, false);
        (void)rmdir(name);
    }
    if (folder != NULL)
        closedir(folder);
}

void hf_writer_deinit(struct hf_writer *writer)
{
    remove_files(writer->path, true);
    if (rmdir(writer->path) != 0)
        die(writer->path);
    hf_writer_close(writer);
}

static void write_all(int descriptor, const void *bytes, size_t length)
{
    for (const char *at = bytes; length > 0;) {
        const ssize_t written = write(descriptor, at, length);
        if (written <= 0)
            die("write");
        at += written;
        length -= (size_t)written;
    }
}

static int create(const struct hf_writer *writer, const char *name)
{
    const int descriptor =
        openat(writer->descriptor, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (descriptor < 0)
        die(name);
    return descriptor;
}

void hf_writer_file(const struct hf_writer *writer, const char *name, struct slice bytes)
{
    const int descriptor = create(writer, name);
    write_all(descriptor, bytes.bytes, bytes.length);
    close(descriptor);
}

void hf_writer_tensor(struct hf_writer *writer, const char *name, const char *dtype,
                      uint32_t dim_count, const uint64_t *shape, const void *data, size_t bytes)
{
    struct hf_writer_tensor *tensor = &writer->tensors[writer->count++];
    if (writer->count > HF_WRITER_TENSORS || dim_count > HF_WRITER_DIMS)
        die(name);
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
    tensor->dtype = dtype;
    tensor->dim_count = dim_count;
    memcpy(tensor->shape, shape, dim_count * sizeof *shape);
    tensor->begin = writer->data.length;
    tensor->bytes = bytes;
    buffer_append(&writer->data, data, bytes);
    if (writer->data.status != STATUS_OK)
        die(name);
}

void hf_writer_shard(const struct hf_writer *writer, const char *name, uint32_t first,
                     uint32_t every)
{
    struct buffer header;
    size_t at = 0;
    buffer_init(&header, DATA_MAX);
    buffer_append_text(&header, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (uint32_t i = first; i < writer->count; i += every) {
        const struct hf_writer_tensor *tensor = &writer->tensors[i];
        buffer_printf(&header, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", tensor->name,
                      tensor->dtype);
        for (uint32_t d = 0; d < tensor->dim_count; d++)
            buffer_printf(&header, "%s%llu", d > 0 ? "," : "",
                          (unsigned long long)tensor->shape[d]);
        buffer_printf(&header, "],\"data_offsets\":[%zu,%zu]}", at, at + tensor->bytes);
        at += tensor->bytes;
    }
    buffer_append_char(&header, '}');
    const uint64_t length = header.length;
    const int descriptor = create(writer, name);
    write_all(descriptor, &length, sizeof length);
    write_all(descriptor, header.bytes, header.length);
    for (uint32_t i = first; i < writer->count; i += every)
        write_all(descriptor, writer->data.bytes + writer->tensors[i].begin,
                  writer->tensors[i].bytes);
    close(descriptor);
    buffer_deinit(&header);
}

void hf_writer_finish(const struct hf_writer *writer, uint32_t files)
{
    struct buffer index;
    char name[64];
    if (files == 1) {
        hf_writer_shard(writer, "model.safetensors", 0, 1);
        return;
    }
    buffer_init(&index, DATA_MAX);
    buffer_append_text(&index, "{\"metadata\":{\"total_size\":0},\"weight_map\":{");
    for (uint32_t i = 0; i < writer->count; i++)
        buffer_printf(&index, "%s\"%s\":\"model-%05u-of-%05u.safetensors\"", i > 0 ? "," : "",
                      writer->tensors[i].name, i % files + 1, files);
    buffer_append_text(&index, "}}");
    hf_writer_file(writer, "model.safetensors.index.json", buffer_slice(&index));
    buffer_deinit(&index);
    for (uint32_t i = 0; i < files; i++) {
        snprintf(name, sizeof name, "model-%05u-of-%05u.safetensors", i + 1, files);
        hf_writer_shard(writer, name, i, files);
    }
}
