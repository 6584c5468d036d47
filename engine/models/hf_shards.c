#include "engine/models/hf_shards.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/json_read.h"
#include "config/base/limits_files.h"
#include "config/base/mem.h"
#include "engine/models/hf_folder.h"

static const char SHARDS_ONE[] = "model.safetensors";
static const char SHARDS_INDEX[] = "model.safetensors.index.json";

struct shard {
    struct safetensors *file;
    char name[LIMIT_FOLDER_NAME_BYTES + 1];
    dev_t device; /* a file under two names is one file */
    ino_t inode;
};

struct hf_shards {
    struct shard shards[LIMIT_SHARDS];
    uint32_t count;
    uint32_t tensors;
};

static enum status open_shard(struct hf_shards *shards, int folder, struct slice name)
{
    struct shard *shard = &shards->shards[shards->count];
    struct stat info;
    int descriptor;
    enum status status = STATUS_OK;
    if (shards->count == LIMIT_SHARDS)
        FAIL(STATUS_LIMIT, "%s: more than %d files", SHARDS_INDEX, LIMIT_SHARDS);
    memcpy(shard->name, name.bytes, name.length);
    shard->name[name.length] = '\0';
    TRY(hf_folder_open(folder, shard->name, &descriptor));
    if (fstat(descriptor, &info) != 0)
        FAIL_OUT(STATUS_IO, "%s: %s", shard->name, strerrordesc_np(errno));
    for (uint32_t i = 0; i < shards->count; i++)
        if (shards->shards[i].device == info.st_dev && shards->shards[i].inode == info.st_ino)
            FAIL_OUT(STATUS_CORRUPT, "%s: %s and %s are one file", SHARDS_INDEX,
                     shards->shards[i].name, shard->name);
    shard->device = info.st_dev;
    shard->inode = info.st_ino;
    TRY_OUT(safetensors_open_descriptor(&shard->file, descriptor, shard->name));
    shards->count++;
    shards->tensors += safetensors_count(shard->file);
out:
    close(descriptor);
    return status;
}

static const struct shard *find_shard(const struct hf_shards *shards, struct slice name)
{
    for (uint32_t i = 0; i < shards->count; i++)
        if (slice_is(name, shards->shards[i].name))
            return &shards->shards[i];
    return NULL;
}

static enum status index_shard(struct hf_shards *shards, int folder,
                               const struct json_read_value *value, const struct shard **out)
{
    const struct slice name = json_read_text(value);
    if (value->kind != JSON_READ_STRING || !hf_folder_is_name(name))
        FAIL(STATUS_CORRUPT, "%s names a file that is not a plain name of this directory",
             SHARDS_INDEX);
    *out = find_shard(shards, name);
    if (*out != NULL)
        return STATUS_OK;
    TRY(open_shard(shards, folder, name));
    *out = &shards->shards[shards->count - 1];
    return STATUS_OK;
}

/* Reads the map {"tensor": "file", …} at index `at`. */
static enum status index_map(struct hf_shards *shards, int folder, const struct json_read *index,
                             uint32_t at)
{
    const uint32_t count = index->values[at].count;
    uint32_t member = at + 1;
    if (count > LIMIT_SAFETENSORS_TENSORS)
        FAIL(STATUS_LIMIT, "%s: more than %d tensors", SHARDS_INDEX, LIMIT_SAFETENSORS_TENSORS);
    for (uint32_t i = 0; i < count; i++) {
        const struct slice tensor = json_read_text(&index->values[member]);
        const struct shard *shard = NULL;
        TRY(index_shard(shards, folder, &index->values[member + 1], &shard));
        if (safetensors_find(shard->file, tensor) == NULL) {
            const struct slice shown = hf_folder_is_name(tensor) ? tensor : SLICE("?");
            FAIL(STATUS_CORRUPT, "%s: tensor '%.*s' is not in %s", SHARDS_INDEX, (int)shown.length,
                 shown.bytes, shard->name);
        }
        member = index->values[member + 1].next;
    }
    /* Listed names are different and each is in its file: with as many tensors in the files, no
     * file has one that is listed elsewhere or nowhere. */
    if (count != shards->tensors)
        FAIL(STATUS_CORRUPT, "%s lists %u tensors, but its files have %u", SHARDS_INDEX, count,
             shards->tensors);
    return STATUS_OK;
}

static enum status open_index(struct hf_shards *shards, int folder)
{
    const struct json_read_limits limits = {.depth = LIMIT_SAFETENSORS_DEPTH,
                                            .values = 4 * LIMIT_SAFETENSORS_TENSORS};
    struct json_read index = {0};
    struct buffer text;
    enum status status = hf_folder_read(folder, SHARDS_INDEX, LIMIT_INDEX_BYTES, &text);
    if (status == STATUS_NOT_FOUND)
        FAIL_OUT(STATUS_NOT_FOUND, "model directory: it has neither %s nor %s", SHARDS_ONE,
                 SHARDS_INDEX);
    TRY_OUT(status);
    status = json_read(&index, buffer_slice(&text), &limits);
    if (status == STATUS_INVALID || status == STATUS_LIMIT)
        FAIL_OUT(STATUS_CORRUPT, "%s: %s", SHARDS_INDEX, status_note()->message);
    TRY_OUT(status);
    const struct json_read_value *map = json_read_member(&index, 0, "weight_map");
    if (map == NULL || map->kind != JSON_READ_OBJECT)
        FAIL_OUT(STATUS_CORRUPT, "%s has no object weight_map", SHARDS_INDEX);
    TRY_OUT(index_map(shards, folder, &index, (uint32_t)(map - index.values)));
out:
    json_read_free(&index);
    buffer_deinit(&text);
    return status;
}

enum status hf_shards_open(struct hf_shards **out, int folder)
{
    struct hf_shards *shards = mem_zalloc(1, sizeof *shards);
    *out = NULL;
    if (shards == NULL)
        FAIL(STATUS_NO_MEMORY, "model directory: no memory");
    enum status status = open_shard(shards, folder, slice_of(SHARDS_ONE));
    if (status == STATUS_NOT_FOUND)
        status = open_index(shards, folder);
    if (status != STATUS_OK) {
        hf_shards_close(shards);
        return status;
    }
    *out = shards;
    return STATUS_OK;
}

void hf_shards_close(struct hf_shards *shards)
{
    if (shards == NULL)
        return;
    for (uint32_t i = 0; i < shards->count; i++)
        safetensors_close(shards->shards[i].file);
    mem_free(shards);
}

void hf_shards_forget(const struct hf_shards *shards)
{
    for (uint32_t i = 0; i < shards->count; i++)
        safetensors_forget(shards->shards[i].file);
}

uint32_t hf_shards_files(const struct hf_shards *shards)
{
    return shards->count;
}

uint32_t hf_shards_count(const struct hf_shards *shards)
{
    return shards->tensors;
}

const struct safetensors_tensor *hf_shards_at(const struct hf_shards *shards, uint32_t index)
{
    ASSERT(index < shards->tensors);
    uint32_t shard = 0;
    while (index >= safetensors_count(shards->shards[shard].file))
        index -= safetensors_count(shards->shards[shard++].file);
    return safetensors_at(shards->shards[shard].file, index);
}

const struct safetensors_tensor *hf_shards_find(const struct hf_shards *shards, struct slice name)
{
    for (uint32_t i = 0; i < shards->count; i++) {
        const struct safetensors_tensor *found = safetensors_find(shards->shards[i].file, name);
        if (found != NULL)
            return found;
    }
    return NULL;
}
