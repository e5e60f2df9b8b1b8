/* formats.c - the forms in which models write tool calls and reasoning, and by what a chat template shows which is
 * its model's. The marks are those of the templates themselves (models/templates of llama.cpp has many).
 *
 * The first row whose words are all in the template is taken.
 */
#include "lib/llm/reply/reply_internal.h"

#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* DeepSeek's marks are made of a full-width bar and a block. */
#define BAR   "\xef\xbd\x9c"
#define BLOCK "\xe2\x96\x81"

// clang-format off
static const tag_marks
    qwen_tags = {"<function=", ">", "<parameter=", ">", NULL, "</parameter>", "</function>"},
    glm_tags = {NULL, NULL, "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", NULL},
    minimax_tags = {"<invoke name=\"", "\">", "<parameter name=\"", "\">", NULL, "</parameter>", "</invoke>"},
    minicpm_tags = {" name=\"", "\">", "<param name=\"", "\">", NULL, "</param>", NULL},
    dsml_tags = {"<" BAR "DSML" BAR "invoke name=\"", "\">", "<" BAR "DSML" BAR "parameter name=\"", "\">", NULL,
                 "</" BAR "DSML" BAR "parameter>", "</" BAR "DSML" BAR "invoke>"};

static const call_form call_forms[] = {
    {.name = "qwen3-coder", .in_template = {"<tool_call>", "<function="}, .body = BODY_TAGS,
     .begin = "<tool_call>", .end = "</tool_call>", .tags = &qwen_tags},
    {.name = "seed-oss", .in_template = {"<seed:tool_call>"}, .body = BODY_TAGS,
     .begin = "<seed:tool_call>", .end = "</seed:tool_call>", .tags = &qwen_tags},
    {.name = "glm", .in_template = {"<tool_call>", "<arg_key>"}, .body = BODY_TAGS,
     .begin = "<tool_call>", .end = "</tool_call>", .tags = &glm_tags},
    {.name = "minimax", .in_template = {"<minimax:tool_call>"}, .body = BODY_TAGS,
     .begin = "<minimax:tool_call>", .end = "</minimax:tool_call>", .tags = &minimax_tags},
    {.name = "minicpm", .in_template = {"<function name=", "<param name="}, .body = BODY_TAGS,
     .begin = "<function", .end = "</function>", .tags = &minicpm_tags},
    {.name = "dsml", .in_template = {BAR "DSML" BAR, "function_calls"}, .body = BODY_TAGS,
     .begin = "<" BAR "DSML" BAR "function_calls>", .end = "</" BAR "DSML" BAR "function_calls>", .tags = &dsml_tags},
    {.name = "hermes", .in_template = {"<tool_call>"}, .body = BODY_JSON,
     .begin = "<tool_call>", .end = "</tool_call>"},
    {.name = "deepseek", .in_template = {"<" BAR "tool" BLOCK "call" BLOCK "begin" BAR ">"}, .body = BODY_NAMED,
     .begin = "<" BAR "tool" BLOCK "call" BLOCK "begin" BAR ">", .end = "<" BAR "tool" BLOCK "call" BLOCK "end" BAR ">",
     .between = {"<" BAR "tool" BLOCK "calls" BLOCK "begin" BAR ">", "<" BAR "tool" BLOCK "calls" BLOCK "end" BAR ">"},
     .separator = "<" BAR "tool" BLOCK "sep" BAR ">"},
    {.name = "kimi", .in_template = {"<|tool_call_argument_begin|>"}, .body = BODY_NAMED,
     .begin = "<|tool_call_begin|>", .end = "<|tool_call_end|>", .name_end = "<|tool_call_argument_begin|>",
     .between = {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"}},
    {.name = "mistral", .in_template = {"[TOOL_CALLS]"}, .body = BODY_NAMED,
     .begin = "[TOOL_CALLS]", .separator = "[CALL_ID]", .name_first = true, .name_end = "[ARGS]"},
    {.name = "solar", .in_template = {"<|tool_call:begin|>"}, .body = BODY_NAMED,
     .begin = "<|tool_call:begin|>", .end = "<|tool_call:end|>", .separator = "<|tool_call:name|>",
     .name_end = "<|tool_call:args|>", .between = {"<|tool_calls|>"}},
    {.name = "functionary", .in_template = {"<function=", "</function>"}, .body = BODY_NAMED,
     .begin = "<function=", .end = "</function>", .name_end = ">"},
    {.name = "command-r", .in_template = {"<|START_ACTION|>"}, .body = BODY_JSON,
     .begin = "<|START_ACTION|>", .end = "<|END_ACTION|>"},
    {.name = "nemotron", .in_template = {"<TOOLCALL>"}, .body = BODY_JSON,
     .begin = "<TOOLCALL>", .end = "</TOOLCALL>"},
    {.name = "granite", .in_template = {"<|tool_call|>"}, .body = BODY_JSON,
     .begin = "<|tool_call|>", .end = "<|/tool_call|>"},
    {.name = "apertus", .in_template = {"<|tools_prefix|>"}, .body = BODY_JSON,
     .begin = "<|tools_prefix|>", .end = "<|tools_suffix|>"},
    {.name = "firefunction", .in_template = {"functools["}, .body = BODY_JSON, .begin = "functools"},
    {.name = "lfm2", .in_template = {"<|tool_call_start|>"}, .body = BODY_PYTHON,
     .begin = "<|tool_call_start|>", .end = "<|tool_call_end|>"},
    {.name = "gemma4", .in_template = {"<|tool_call>"}, .body = BODY_PAIRS,
     .begin = "<|tool_call>", .end = "<tool_call|>", .quote = "<|\"|>"},
    {.name = "functiongemma", .in_template = {"<start_function_call>"}, .body = BODY_PAIRS,
     .begin = "<start_function_call>", .end = "<end_function_call>", .quote = "<escape>"},
    {.name = "tool_code", .in_template = {"tool_code"}, .body = BODY_PYTHON,
     .begin = "```tool_code", .end = "```"},
    {.name = "pythonic", .in_template = {"(params_name1"}, .body = BODY_PYTHON,
     .between = {"<|python_start|>", "<|python_end|>"}},
    {.name = "llama3", .in_template = {"\"name\": ", "\"parameters\": "}, .body = BODY_JSON,
     .between = {"<|python_tag|>", "```json", "```"}, .separator = ";"},
    {.name = "json", .in_template = {"\"name\": ", "\"arguments\": "}, .body = BODY_JSON,
     .between = {"<|python_tag|>", "```json", "```"}, .separator = ";"},
};

static const reasoning_form reasoning_forms[] = {
    {"think", NULL, "<think>", "</think>"},
    {"mistral", NULL, "[THINK]", "[/THINK]"},
    {"seed-oss", NULL, "<seed:think>", "</seed:think>"},
    {"minimax-m3", NULL, "<mm:think>", "</mm:think>"},
    {"command-r", NULL, "<|START_THINKING|>", "<|END_THINKING|>"},
    {"gemma4", "<|channel>", "<|channel>thought", "<channel|>"},
    {"apertus", NULL, "<|inner_prefix|>", "<|inner_suffix|>"},
    {"kimi-vl", NULL, "\xe2\x97\x81think\xe2\x96\xb7", "\xe2\x97\x81/think\xe2\x96\xb7"},
};
// clang-format on

static bool holds(zt_bytes text, const char *words) { return zt_reply_find(text, words) != NULL; }

bool zt_reply_has_channels(zt_bytes template_text)
{
    return holds(template_text, "<|channel|>") && holds(template_text, "<|message|>") && holds(template_text, "<|start|>");
}

const call_form *zt_reply_find_form(zt_bytes template_text)
{
    for (size_t i = 0; i < COUNT(call_forms); i++) {
        bool all = true;
        for (size_t k = 0; k < COUNT(call_forms[i].in_template) && call_forms[i].in_template[k]; k++)
            all = all && holds(template_text, call_forms[i].in_template[k]);
        if (all) return &call_forms[i];
    }
    return NULL;
}

const reasoning_form *zt_reply_find_reasoning(zt_bytes template_text)
{
    for (size_t i = 0; i < COUNT(reasoning_forms); i++) {
        const reasoning_form *row = &reasoning_forms[i];
        if (row->in_template ? holds(template_text, row->in_template)
                             : holds(template_text, row->begin) || holds(template_text, row->end))
            return row;
    }
    return NULL;
}

const char *zt_reply_call_form(zt_bytes template_text)
{
    if (!template_text.n) return NULL;
    if (zt_reply_has_channels(template_text)) return "harmony";
    const call_form *form = zt_reply_find_form(template_text);
    return form ? form->name : NULL;
}

const char *zt_reply_reasoning_form(zt_bytes template_text)
{
    if (!template_text.n) return NULL;
    if (zt_reply_has_channels(template_text)) return "harmony";
    const reasoning_form *form = zt_reply_find_reasoning(template_text);
    return form ? form->name : NULL;
}
