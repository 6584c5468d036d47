#include "engine/request/guard.h"

#include "config/base/mem.h"
#include "engine/grammar/grammar_run.h"
#include "engine/grammar/token_class.h"

enum status guard_make(struct guard *guard, struct grammar *grammar, struct token_classes *classes)
{
    const struct token_trie *trie = token_classes_trie(classes);
    *guard = (struct guard){.mask = mem_zalloc(token_trie_mask_words(trie), sizeof *guard->mask)};
    if (guard->mask == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the mask of an answer");
    enum status status = grammar_run_new(grammar, trie, &guard->run);
    if (status != STATUS_OK) {
        guard_free(guard);
        return status;
    }
    grammar_run_use_classes(guard->run, classes);
    return STATUS_OK;
}

bool guard_begin(struct guard *guard, struct slice text)
{
    guard->is_broken = !grammar_run_commit_bytes(guard->run, text);
    return !guard->is_broken;
}

void guard_free(struct guard *guard)
{
    grammar_run_free(guard->run);
    mem_free(guard->mask);
    *guard = (struct guard){0};
}

bool guard_take_forced(struct guard *guard, uint32_t token)
{
    guard->is_ready = false;
    guard->waits = 0;
    guard->is_broken = guard->is_broken || !grammar_run_commit(guard->run, token);
    return !guard->is_broken;
}

bool guard_take(struct guard *guard, uint32_t token)
{
    guard->is_force_asked = false;
    guard->is_over = false;
    return guard_take_forced(guard, token);
}

bool guard_is_over(struct guard *guard)
{
    return grammar_run_is_over(guard->run);
}
