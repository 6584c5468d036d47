/* parity_tokenizers: the ids of texts by this project's tokenizer, for tests/parity/tokenizers.
 *
 * usage: parity_tokenizers FILE.gguf|FOLDER [control] < texts > ids
 *
 * A text is its length in bytes (4 bytes, little-endian) and its bytes; ids are their number and
 * themselves, 4 bytes each. Control tokens are matched if asked for. A folder has the files about
 * text of a Hugging Face directory. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/models/hf_tokenizer.h"
#include "engine/text/tokenizer.h"

static void die(const char *what)
{
    fprintf(stderr, "parity_tokenizers: %s: %s\n", what, status_note()->message);
    exit(1);
}

static void answer(const struct tokenizer *tokenizer, struct slice text, bool with_control)
{
    struct tokenizer_span all = tokenizer_everywhere(text);
    size_t most = tokenizer_most(tokenizer, text);
    uint32_t *ids = malloc((most + 1) * sizeof *ids);
    size_t count = 0;
    if (ids == NULL || tokenizer_encode(tokenizer, text, &all, with_control ? 1 : 0, ids, most,
                                        &count) != STATUS_OK)
        die("encode");
    if (tokenizer_fewest(tokenizer, text) > count)
        die("the lower bound of the ids is above their number");
    uint32_t head = (uint32_t)count;
    fwrite(&head, sizeof head, 1, stdout);
    fwrite(ids, sizeof *ids, count, stdout);
    free(ids);
}

/* `keys` must outlive `out`. */
static enum status open_file(const char *path, struct gguf_keys *keys, struct gguf **out)
{
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return gguf_open(out, path);
    const enum status status = hf_tokenizer_read(folder, NULL, 0, keys);
    close(folder);
    TRY(status);
    return gguf_keys_finish(keys, out);
}

int main(int argument_count, char **arguments)
{
    struct gguf_keys keys;
    struct gguf *gguf = NULL;
    struct vocab *vocab = NULL;
    struct tokenizer *tokenizer = NULL;
    uint32_t length;
    if (argument_count != 2 && argument_count != 3) {
        fputs("usage: parity_tokenizers FILE.gguf|FOLDER [control] < texts > ids\n", stderr);
        return 2;
    }
    gguf_keys_init(&keys);
    if (open_file(arguments[1], &keys, &gguf) != STATUS_OK ||
        vocab_create(&vocab, gguf) != STATUS_OK ||
        tokenizer_create(&tokenizer, vocab, gguf) != STATUS_OK)
        die(arguments[1]);
    while (fread(&length, sizeof length, 1, stdin) == 1) {
        char *bytes = malloc((size_t)length + 1);
        if (bytes == NULL || fread(bytes, 1, length, stdin) != length)
            die("a text ends early");
        answer(tokenizer, (struct slice){bytes, length}, argument_count == 3);
        free(bytes);
    }
    tokenizer_destroy(tokenizer);
    vocab_destroy(vocab);
    gguf_close(gguf);
    gguf_keys_deinit(&keys);
    return 0;
}
