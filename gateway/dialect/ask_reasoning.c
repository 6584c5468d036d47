#include "gateway/dialect/ask_reasoning.h"

#include "gateway/dialect/ask_block.h"
#include "gateway/dialect/ask_read.h"

static enum status word_check(const struct ask_value *value, const char *const *words)
{
    size_t i = 0;
    while (words[i] != NULL && !slice_is(value->word, words[i]))
        i++;
    if (words[i] == NULL)
        FAIL_PARAM(STATUS_INVALID, value->name, "Invalid value for '%s'.", value->name);
    return STATUS_OK;
}

enum status ask_reasoning_read_effort(struct ask *ask, const struct ask_value *value)
{
    static const char *const words[] = {"none", "minimal", "low", "medium", "high", "xhigh", NULL};
    ask->variables.effort = value->word;
    return word_check(value, words);
}

enum status ask_reasoning_read_verbosity(struct ask *ask, const struct ask_value *value)
{
    static const char *const words[] = {"low", "medium", "high", NULL};
    ask->variables.verbosity = value->word;
    return word_check(value, words);
}

enum status ask_reasoning_read_budget(struct ask *ask, const struct ask_value *value)
{
    ask->engine.limits_reasoning = true;
    ask->engine.reasoning_max = (uint32_t)value->integer;
    return STATUS_OK;
}

/* Whether the model can be told to end its reasoning. Beside tools, an answer that a constraint
 * makes from its first token on has none. */
static enum status budget_check(struct ask *ask)
{
    const struct answer_model *model = ask->model.answer;
    const struct engine_constraint *constraint = &ask->engine.constraint;
    if (!ask->engine.limits_reasoning)
        return STATUS_OK;
    if (!model->has_reasoning || model->format->marks[ANSWER_REASON_CLOSE] == NULL)
        FAIL_PARAM(STATUS_UNSUPPORTED, "thinking_token_budget",
                   "Unsupported parameter: 'thinking_token_budget' is not supported here: this "
                   "model has no mark that ends its reasoning; use 'max_tokens'.");
    ask->engine.limits_reasoning =
        ask->is_split && (!constraint->is_set || constraint->is_calls || ask->is_constrained);
    return STATUS_OK;
}

/* Sets a variable that the client has not set itself. */
static void variable_set(json_t *variables, const char *name, json_t *value)
{
    if (json_object_get(variables, name) == NULL)
        json_object_set_new(variables, name, value);
    else
        json_decref(value);
}

static json_t *variable_word(struct slice word)
{
    return json_stringn(word.bytes, word.length);
}

/* Variables go to the server behind this one; what it would not know is refused here. */
static enum status check_foreign(struct ask *ask)
{
    const struct ask_variables *wanted = &ask->variables;
    if (wanted->verbosity.length > 0 && !slice_is(wanted->verbosity, "medium"))
        FAIL_PARAM(STATUS_UNSUPPORTED, "verbosity",
                   "Unsupported value: 'verbosity' must be 'medium' here; ask for short or long "
                   "answers in a message.");
    ask->engine.inputs.effort = wanted->effort;
    if (wanted->given == NULL)
        return STATUS_OK;
    return ask_block_json(wanted->given, &ask->blocks, &ask->engine.inputs.values);
}

static enum status variables_check(const struct ask *ask)
{
    const struct answer_model *model = ask->model.answer;
    const struct slice effort = ask->variables.effort;
    const struct slice verbosity = ask->variables.verbosity;
    bool has_effort = effort.length > 0 && !slice_is(effort, "none");
    if (has_effort && !model->reads_effort && !model->reads_thinking)
        FAIL_PARAM(STATUS_UNSUPPORTED, "reasoning_effort",
                   "Unsupported value: 'reasoning_effort' must be 'none' here: this model's chat "
                   "template does not read it.");
    if (verbosity.length > 0 && !slice_is(verbosity, "medium") && !model->reads_verbosity)
        FAIL_PARAM(STATUS_UNSUPPORTED, "verbosity",
                   "Unsupported value: 'verbosity' must be 'medium' here; ask for short or long "
                   "answers in a message.");
    return STATUS_OK;
}

enum status ask_reasoning_check(struct ask *ask)
{
    const struct ask_variables *wanted = &ask->variables;
    const struct answer_model *model = ask->model.answer;
    enum status status = STATUS_OK;
    if (ask->model.is_foreign)
        return check_foreign(ask);
    TRY(variables_check(ask));
    TRY(budget_check(ask));
    json_t *variables =
        wanted->given != NULL ? json_copy((json_t *)(uintptr_t)wanted->given) : json_object();
    if (variables == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the variables of a template");
    if (wanted->effort.length > 0 && model->reads_effort)
        variable_set(variables, "reasoning_effort", variable_word(wanted->effort));
    if (wanted->effort.length > 0 && model->reads_thinking)
        variable_set(variables, "enable_thinking", json_boolean(!slice_is(wanted->effort, "none")));
    if (wanted->verbosity.length > 0 && model->reads_verbosity)
        variable_set(variables, "verbosity", variable_word(wanted->verbosity));
    if (json_object_size(variables) > 0 || wanted->given != NULL)
        status = ask_block_json(variables, &ask->blocks, &ask->engine.inputs.values);
    json_decref(variables);
    return status;
}
