#include "kernels/kernels_trial.h"

#include <stddef.h>
#include <string.h>

bool kernels_trial_set(struct kernels_trial *trial, const char *word)
{
    const struct {
        const char *word;
        bool *out;
    } words[] = {{"no-early", &trial->no_early},
                 {"no-graphs", &trial->no_graphs},
                 {"few-stages", &trial->few_stages},
                 {"carveout", &trial->all_carveout}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(word, words[i].word) == 0) {
            *words[i].out = true;
            return true;
        }
    return false;
}

bool kernels_trial_is_set(const struct kernels_trial *trial)
{
    return trial->no_early || trial->no_graphs || trial->few_stages || trial->all_carveout;
}
