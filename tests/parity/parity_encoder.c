/* parity_encoder: the states of a text's tokens by an encoder, for tests/parity/minilm.
 *
 * usage: parity_encoder FOLDER ISA KV_TYPE < texts > states
 *
 * A text is the number of its ids (4 bytes, little-endian) and its ids (4 bytes each); its states
 * are float32 numbers, [ids][width]. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/kit/model_run.h"

enum { LONGEST = 512 };

static void die(const char *what)
{
    fprintf(stderr, "parity_encoder: %s: %s\n", what, status_note()->message);
    exit(1);
}

int main(int argument_count, char **arguments)
{
    struct model_source source;
    struct model_run run;
    enum kv_type kv_type;
    uint32_t tokens[LONGEST];
    uint32_t count;
    if (argument_count != 4) {
        fputs("usage: parity_encoder FOLDER ISA KV_TYPE < texts > states\n", stderr);
        return 2;
    }
    if (kernels_kv_type_find(&kv_type, arguments[3]) != STATUS_OK ||
        model_source_open(&source, arguments[1]) != STATUS_OK)
        die("open");
    const struct model_run_options options = {.isa = arguments[2],
                                              .threads = 2,
                                              .kv_type = kv_type,
                                              .rows_max = LONGEST,
                                              .sequences = 1,
                                              .tokens_max = LONGEST,
                                              .has_states = true};
    if (model_run_open_source(&run, &source, &options) != STATUS_OK)
        die("model");
    while (fread(&count, sizeof count, 1, stdin) == 1) {
        if (count < 1 || count > LONGEST || fread(tokens, sizeof *tokens, count, stdin) != count)
            die("texts");
        (void)model_run_chunk(&run, 0, 0, tokens, count);
        fwrite(model_states(run.model), sizeof(float) * model_config(run.model)->width, count,
               stdout);
    }
    model_run_close(&run);
    model_source_close(&source);
    return 0;
}
