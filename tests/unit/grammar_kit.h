/* grammar_kit: what tests of grammars share: tries of given tokens, and a naive recogniser.
 *
 * Owns:     nothing.
 * Thread:   one.
 * Not here: regexes and lexers on their own.
 */
#pragma once

#include "config/base/rng.h"
#include "engine/grammar/grammar.h"
#include "engine/grammar/grammar_mask.h"
#include "engine/grammar/grammar_run.h"
#include "engine/grammar/token_trie.h"
#include "tests/kit/rounds.h"
#include "tests/unit/base_kit.h"

enum {
    KIT_FUEL = 1000000,
    KIT_RULES = 6,
    KIT_ALTERNATIVES = 4,
    KIT_SYMBOLS = 4,
    KIT_LETTERS = 4,
    KIT_TEXT = 12,
};

static inline struct slice kit_trie_bytes(const void *context, uint32_t id)
{
    return slice_of(((const char *const *)context)[id]);
}

/* A trie of these tokens; "" is a control token. */
static inline struct token_trie *kit_trie(const char *const *texts, uint32_t count)
{
    struct token_trie *trie;
    struct token_trie_source source = {.vocab = count, .bytes = kit_trie_bytes, .context = texts};
    assert_int_equal(token_trie_new(&source, &trie), STATUS_OK);
    return trie;
}

/* A builder with fuel of its own. */
struct kit_grammar {
    struct grammar_fuel fuel;
    struct grammar_builder *builder;
};

static inline void kit_begin(struct kit_grammar *kit)
{
    grammar_fuel_init(&kit->fuel, KIT_FUEL, NULL);
    assert_int_equal(grammar_builder_new(&kit->fuel, &kit->builder), STATUS_OK);
}

/* Finishes and frees the builder. */
static inline enum status kit_finish(struct kit_grammar *kit, grammar_symbol start,
                                     struct grammar **out)
{
    enum status status = grammar_finish(kit->builder, start, out);
    grammar_builder_free(kit->builder);
    return status;
}

/* --- context-free rules over the letters a, b, …, and what they match --- */

/* A symbol below KIT_RULES is a rule, from KIT_RULES on it is a letter. Rule 0 is the start. */
struct kit_rules {
    uint32_t rules;
    struct kit_rule {
        uint32_t count;
        struct {
            uint32_t count;
            uint32_t symbols[KIT_SYMBOLS];
        } alternatives[KIT_ALTERNATIVES];
    } rule[KIT_RULES];
    bool is_productive[KIT_RULES];
};

static inline bool kit_symbol_is_productive(const struct kit_rules *rules, uint32_t symbol)
{
    return symbol >= KIT_RULES || rules->is_productive[symbol];
}

static inline bool kit_alternative_is_productive(const struct kit_rules *rules, uint32_t rule,
                                                 uint32_t at)
{
    for (uint32_t i = 0; i < rules->rule[rule].alternatives[at].count; i++)
        if (!kit_symbol_is_productive(rules, rules->rule[rule].alternatives[at].symbols[i]))
            return false;
    return true;
}

static inline void kit_rules_random(struct kit_rules *rules, struct rng *rng)
{
    memset(rules, 0, sizeof *rules);
    rules->rules = 1 + (uint32_t)rng_below(rng, KIT_RULES);
    for (uint32_t r = 0; r < rules->rules; r++) {
        struct kit_rule *rule = &rules->rule[r];
        rule->count = 1 + (uint32_t)rng_below(rng, KIT_ALTERNATIVES);
        for (uint32_t a = 0; a < rule->count; a++) {
            rule->alternatives[a].count = (uint32_t)rng_below(rng, KIT_SYMBOLS + 1);
            for (uint32_t i = 0; i < rule->alternatives[a].count; i++)
                rule->alternatives[a].symbols[i] =
                    rng_below(rng, 2) != 0 ? KIT_RULES + (uint32_t)rng_below(rng, KIT_LETTERS)
                                           : (uint32_t)rng_below(rng, rules->rules);
        }
    }
    for (uint32_t round = 0; round < KIT_RULES; round++)
        for (uint32_t r = 0; r < rules->rules; r++)
            for (uint32_t a = 0; a < rules->rule[r].count; a++)
                rules->is_productive[r] |= kit_alternative_is_productive(rules, r, a);
}

/* The same rules as a grammar; one lexeme for each letter. */
static inline enum status kit_rules_build(const struct kit_rules *rules, struct grammar **out)
{
    struct kit_grammar kit;
    grammar_symbol symbols[KIT_RULES + KIT_LETTERS];
    kit_begin(&kit);
    for (uint32_t r = 0; r < rules->rules; r++)
        symbols[r] = grammar_rule(kit.builder);
    for (uint32_t l = 0; l < KIT_LETTERS; l++)
        symbols[KIT_RULES + l] = grammar_text(kit.builder, (struct slice){&"abcdefgh"[l], 1});
    for (uint32_t r = 0; r < rules->rules; r++)
        for (uint32_t a = 0; a < rules->rule[r].count; a++) {
            grammar_symbol used[KIT_SYMBOLS];
            uint32_t count = rules->rule[r].alternatives[a].count;
            for (uint32_t i = 0; i < count; i++)
                used[i] = symbols[rules->rule[r].alternatives[a].symbols[i]];
            grammar_rule_add(kit.builder, symbols[r], used, count);
        }
    return kit_finish(&kit, symbols[0], out);
}

/* Which ends each rule can reach from each beginning, a bit each, and from where it can go on
 * beyond the end of the text. */
struct kit_chart {
    uint32_t ends[KIT_RULES][KIT_TEXT + 1];
    bool goes_on[KIT_RULES][KIT_TEXT + 1];
};

/* The ends of one alternative. `*goes_on` is set when it can match a longer text. */
static inline uint32_t kit_alternative_ends(const struct kit_rules *rules,
                                            const struct kit_chart *chart, uint32_t rule,
                                            uint32_t at, const char *text, uint32_t length,
                                            uint32_t from, bool *goes_on)
{
    uint32_t ends = (uint32_t)1 << from;
    for (uint32_t i = 0; i < rules->rule[rule].alternatives[at].count; i++) {
        uint32_t symbol = rules->rule[rule].alternatives[at].symbols[i];
        uint32_t next = 0;
        *goes_on |= (ends >> length & 1) != 0;
        for (uint32_t begin = 0; begin <= length; begin++) {
            if ((ends >> begin & 1) == 0)
                continue;
            if (symbol >= KIT_RULES) {
                if (begin < length && text[begin] == "abcdefgh"[symbol - KIT_RULES])
                    next |= (uint32_t)1 << (begin + 1);
            } else {
                next |= chart->ends[symbol][begin];
                *goes_on |= chart->goes_on[symbol][begin];
            }
        }
        ends = next;
    }
    *goes_on |= (ends >> length & 1) != 0;
    return ends;
}

/* Whether the text is a beginning of a text that the rules match; `*is_whole`: whether it is one
 * already. A least fixed point, as slow as it is simple. */
static inline bool kit_rules_match(const struct kit_rules *rules, const char *text, uint32_t length,
                                   bool *is_whole)
{
    struct kit_chart chart;
    bool has_changed = true;
    memset(&chart, 0, sizeof chart);
    while (has_changed) {
        has_changed = false;
        for (uint32_t r = 0; r < rules->rules; r++)
            for (uint32_t a = 0; a < rules->rule[r].count; a++)
                for (uint32_t from = 0;
                     from <= length && kit_alternative_is_productive(rules, r, a); from++) {
                    bool goes_on = false;
                    uint32_t ends =
                        kit_alternative_ends(rules, &chart, r, a, text, length, from, &goes_on);
                    has_changed |=
                        (ends & ~chart.ends[r][from]) != 0 || (goes_on && !chart.goes_on[r][from]);
                    chart.ends[r][from] |= ends;
                    chart.goes_on[r][from] |= goes_on;
                }
    }
    *is_whole = (chart.ends[0][0] >> length & 1) != 0;
    return chart.goes_on[0][0];
}
