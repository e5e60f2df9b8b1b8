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
/* MiniMax M3 has a token before each of its tags. */
#define MINIMAX "]<]minimax[>["

// clang-format off
/* The tags of DeepSeek's DSML, and what else is written so. */
#define INVOKE_TAGS(word) \
    {.function = "<" BAR word BAR "invoke name=\"", .function_end = "\">", .argument = "<" BAR word BAR "parameter name=\"", \
     .argument_end = "\">", .value_end = "</" BAR word BAR "parameter>", .close = "</" BAR word BAR "invoke>", \
     .is_text = "string=\"true\"", .is_json = "string=\"false\""}
#define INVOKE_ARGUMENTS(word) \
    {.begin = "<" BAR word BAR "parameter name=\"", .text = "\" string=\"true\">", .other = "\" string=\"false\">", \
     .end = "</" BAR word BAR "parameter>", .after = "~", .raw = true, .dialect = &tagged_json}
#define INVOKE_FORM(word, calls) \
     .body = BODY_TAGS, .begin = "<" BAR word BAR calls ">", .end = "</" BAR word BAR calls ">", \
     .writing = {{.open = "<" BAR word BAR calls ">~", .more = "", .close = "</" BAR word BAR calls ">", \
                  .call = "<" BAR word BAR "invoke name=\"%n\">~%a</" BAR word BAR "invoke>~"}}

static const tag_marks
    qwen_tags = {.function = "<function=", .function_end = ">", .argument = "<parameter=", .argument_end = ">",
        .value_end = "</parameter>", .close = "</function>"},
    glm_tags = {.argument = "<arg_key>", .argument_end = "</arg_key>", .value = "<arg_value>", .value_end = "</arg_value>"},
    minimax_tags = {.function = "<invoke name=\"", .function_end = "\">", .argument = "<parameter name=\"",
        .argument_end = "\">", .value_end = "</parameter>", .close = "</invoke>"},
    minicpm_tags = {.function = " name=\"", .function_end = "\">", .argument = "<param name=\"", .argument_end = "\">",
        .value_end = "</param>"},
    dsml_tags = INVOKE_TAGS("DSML"),
    gcml_tags = INVOKE_TAGS("GCML"),
    longcat_tags = {.argument = "<longcat_arg_key>", .argument_end = "</longcat_arg_key>", .value = "<longcat_arg_value>",
        .value_end = "</longcat_arg_value>"},
    hunyuan_tags = {.function = "", .function_end = "<tool_sep>", .argument = "<arg_key>", .argument_end = "</arg_key>",
        .value = "<arg_value>", .value_end = "</arg_value>"},
    minimax_m3_tags = {.function = MINIMAX "<invoke name=\"", .function_end = "\">", .argument = MINIMAX "<",
        .argument_end = ">", .nested = MINIMAX "</", .close = MINIMAX "</invoke>"},
    kimi_k3_tags = {.function = "", .function_end = "\"", .argument = "<|open|>argument key=\"", .argument_end = "\"",
        .value_end = "<|close|>argument<|sep|>", .attributes_end = "<|sep|>", .is_text = "type=\"string\"",
        .is_json = "type=\"", .json = "<|open|>json type=\"object\"<|sep|>", .json_end = "<|close|>json<|sep|>"};

/* How arguments are written that are not one JSON object. */
static const gdialect tagged_json = {.words = {"null", "false", "true"}, .escape_less = true};
static const gdialect json_words = {.words = {"null", "false", "true"}};
static const gdialect python_words = {.words = {"None", "False", "True"}};
static const gdialect gemma4_words = {.words = {"null", "false", "true"}, .quote = "<|\"|>", .bare_keys = true},
                      functiongemma_words = {.words = {"null", "false", "true"}, .quote = "<escape>", .bare_keys = true};
static const garguments
    qwen_arguments = {.begin = "<parameter=", .text = ">", .other = ">", .wrap = "\n", .end = "</parameter>", .after = "\n", .raw = true, .dialect = &tagged_json},
    seed_arguments = {.begin = "<parameter=", .text = ">", .other = ">", .end = "</parameter>", .after = "~", .raw = true, .dialect = &tagged_json},
    glm_arguments = {.begin = "<arg_key>", .text = "</arg_key>~<arg_value>", .other = "</arg_key>~<arg_value>", .end = "</arg_value>",
                     .after = "~", .raw = true, .dialect = &tagged_json},
    minimax_arguments = {.begin = "<parameter name=\"", .text = "\">", .other = "\">", .end = "</parameter>", .after = "~", .raw = true, .dialect = &tagged_json},
    minicpm_arguments = {.begin = "<param name=\"", .text = "\">", .other = "\">", .end = "</param>", .after = "~", .raw = true, .dialect = &tagged_json},
    dsml_arguments = INVOKE_ARGUMENTS("DSML"), gcml_arguments = INVOKE_ARGUMENTS("GCML"),
    longcat_arguments = {.begin = "<longcat_arg_key>", .text = "</longcat_arg_key>~<longcat_arg_value>", .other = "</longcat_arg_key>~<longcat_arg_value>",
                         .end = "</longcat_arg_value>", .after = "~", .raw = true, .dialect = &tagged_json},
    kimi_k3_arguments = {.begin = "<|open|>argument key=\"", .text = "\" type=\"string\"<|sep|>", .other = "\" type=\"%\"<|sep|>",
                         .end = "<|close|>argument<|sep|>", .raw = true, .dialect = &tagged_json},
    python_arguments = {.other = "=", .separator = ",~", .dialect = &python_words},
    olmo_arguments = {.other = "=", .separator = ",~", .dialect = &json_words},
    gemma4_arguments = {.other = ":", .separator = ",", .dialect = &gemma4_words},
    functiongemma_arguments = {.other = ":", .separator = ",", .dialect = &functiongemma_words};

#define OBJECT(arguments) "{~\"name\":~\"%n\",~\"" arguments "\":~%a~}"
#define LISTED(begin, arguments, end) {{.open = begin "~[~", .call = OBJECT(arguments), .more = ",~", .close = "~]" end}}

static const call_form call_forms[] = {
    {.name = "minimax-m3", .in_template = {MINIMAX, "<tool_call>"}, .body = BODY_TAGS,
     .begin = MINIMAX "<tool_call>", .end = MINIMAX "</tool_call>", .tags = &minimax_m3_tags},
    {.name = "kimi-k3", .in_template = {"<|open|>", "<|close|>", "<|sep|>"}, .body = BODY_TAGS,
     .begin = "<|open|>call tool=\"", .end = "<|close|>call<|sep|>", .tags = &kimi_k3_tags,
     .between = {"<|open|>tools<|sep|>", "<|close|>tools<|sep|>", "<|close|>message<|sep|>"},
     .arguments = &kimi_k3_arguments,
     .writing = {{.open = "<|open|>tools<|sep|>", .more = "", .close = "<|close|>tools<|sep|>",
                  .call = "<|open|>call tool=\"%n\" index=\"%d\"<|sep|>%a<|close|>call<|sep|>"}}},
    {.name = "hunyuan", .in_template = {"<tool_call>", "<tool_sep>", "<arg_key>"}, .body = BODY_TAGS,
     .begin = "<tool_call>", .end = "</tool_call>", .between = {"<tool_calls>", "</tool_calls>"},
     .tags = &hunyuan_tags, .arguments = &glm_arguments,
     .writing = {{.open = "<tool_calls>~", .call = "<tool_call>%n<tool_sep>~%a</tool_call>~", .more = "", .close = "</tool_calls>"}}},
    {.name = "qwen3-coder", .in_template = {"<tool_call>", "<function="}, .body = BODY_TAGS,
     .begin = "<tool_call>", .end = "</tool_call>", .tags = &qwen_tags, .arguments = &qwen_arguments,
     .writing = {{.call = "<tool_call>\n<function=%n>\n%a</function>\n</tool_call>"}}},
    {.name = "seed-oss", .in_template = {"<seed:tool_call>"}, .body = BODY_TAGS,
     .begin = "<seed:tool_call>", .end = "</seed:tool_call>", .tags = &qwen_tags, .arguments = &seed_arguments,
     .writing = {{.call = "<seed:tool_call>~<function=%n>~%a</function>~</seed:tool_call>"}}},
    {.name = "glm", .in_template = {"<tool_call>", "<arg_key>"}, .body = BODY_TAGS,
     .begin = "<tool_call>", .end = "</tool_call>", .tags = &glm_tags, .arguments = &glm_arguments,
     .writing = {{.call = "<tool_call>%n~%a</tool_call>"}}},
    {.name = "minimax", .in_template = {"<minimax:tool_call>"}, .body = BODY_TAGS,
     .begin = "<minimax:tool_call>", .end = "</minimax:tool_call>", .tags = &minimax_tags, .arguments = &minimax_arguments,
     .writing = {{.open = "<minimax:tool_call>~", .call = "<invoke name=\"%n\">~%a</invoke>~", .more = "", .close = "</minimax:tool_call>"}}},
    {.name = "minicpm", .in_template = {"<function name=", "<param name="}, .body = BODY_TAGS,
     .begin = "<function", .end = "</function>", .tags = &minicpm_tags, .arguments = &minicpm_arguments,
     .writing = {{.call = "<function name=\"%n\">~%a</function>"}}},
    {.name = "dsml", .in_template = {BAR "DSML" BAR, "function_calls"}, .tags = &dsml_tags, .arguments = &dsml_arguments,
     INVOKE_FORM("DSML", "function_calls")},
    {.name = "dsml-v4", .in_template = {BAR "DSML" BAR, "tool_calls>"}, .tags = &dsml_tags, .arguments = &dsml_arguments,
     INVOKE_FORM("DSML", "tool_calls")},
    {.name = "gcml", .in_template = {BAR "GCML" BAR}, .tags = &gcml_tags, .arguments = &gcml_arguments,
     INVOKE_FORM("GCML", "tool_calls")},
    {.name = "longcat", .in_template = {"<longcat_tool_call>", "<longcat_arg_key>"}, .body = BODY_TAGS,
     .begin = "<longcat_tool_call>", .end = "</longcat_tool_call>", .tags = &longcat_tags, .arguments = &longcat_arguments,
     .writing = {{.call = "<longcat_tool_call>%n~%a</longcat_tool_call>"}}},
    {.name = "longcat-json", .in_template = {"<longcat_tool_call>"}, .body = BODY_JSON,
     .begin = "<longcat_tool_call>", .end = "</longcat_tool_call>",
     .writing = {{.call = "<longcat_tool_call>~" OBJECT("arguments") "~</longcat_tool_call>"}}},
    {.name = "hermes", .in_template = {"<tool_call>"}, .body = BODY_JSON,
     .begin = "<tool_call>", .end = "</tool_call>",
     .writing = {{.in_template = "{\"arguments\": <args-dict>, \"name\": <function-name>}",
                  .call = "<tool_call>~{~\"arguments\":~%a,~\"name\":~\"%n\"~}~</tool_call>"},
                 {.call = "<tool_call>~" OBJECT("arguments") "~</tool_call>"}}},
    {.name = "deepseek", .in_template = {"<" BAR "tool" BLOCK "call" BLOCK "begin" BAR ">"}, .body = BODY_NAMED,
     .begin = "<" BAR "tool" BLOCK "call" BLOCK "begin" BAR ">", .end = "<" BAR "tool" BLOCK "call" BLOCK "end" BAR ">",
     .between = {"<" BAR "tool" BLOCK "calls" BLOCK "begin" BAR ">", "<" BAR "tool" BLOCK "calls" BLOCK "end" BAR ">"},
     .separator = "<" BAR "tool" BLOCK "sep" BAR ">",
     .writing = {{.in_template = "```json", .open = "<" BAR "tool" BLOCK "calls" BLOCK "begin" BAR ">",
                  .call = "<" BAR "tool" BLOCK "call" BLOCK "begin" BAR ">function<" BAR "tool" BLOCK "sep" BAR ">%n\n```json\n%a\n```"
                          "<" BAR "tool" BLOCK "call" BLOCK "end" BAR ">"},
                 {.open = "<" BAR "tool" BLOCK "calls" BLOCK "begin" BAR ">",
                  .call = "<" BAR "tool" BLOCK "call" BLOCK "begin" BAR ">%n<" BAR "tool" BLOCK "sep" BAR ">%a"
                          "<" BAR "tool" BLOCK "call" BLOCK "end" BAR ">"}}},
    {.name = "kimi", .in_template = {"<|tool_call_argument_begin|>"}, .body = BODY_NAMED,
     .begin = "<|tool_call_begin|>", .end = "<|tool_call_end|>", .name_end = "<|tool_call_argument_begin|>",
     .between = {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"},
     .writing = {{.open = "<|tool_calls_section_begin|>",
                  .call = "<|tool_call_begin|>functions.%n:%d<|tool_call_argument_begin|>%a<|tool_call_end|>"}}},
    {.name = "mistral", .in_template = {"[TOOL_CALLS]"}, .body = BODY_NAMED,
     .begin = "[TOOL_CALLS]", .separator = "[CALL_ID]", .name_first = true, .name_end = "[ARGS]",
     .writing = {{.in_template = "[CALL_ID]", .call = "[TOOL_CALLS]%n[CALL_ID]%i[ARGS]%a"},
                 {.in_template = "[ARGS]", .call = "[TOOL_CALLS]%n[ARGS]%a"},
                 {.open = "[TOOL_CALLS]~[", .call = OBJECT("arguments"), .more = ",~", .close = "]"}}},
    {.name = "solar", .in_template = {"<|tool_call:begin|>"}, .body = BODY_NAMED,
     .begin = "<|tool_call:begin|>", .end = "<|tool_call:end|>", .separator = "<|tool_call:name|>",
     .name_end = "<|tool_call:args|>", .between = {"<|tool_calls|>"},
     .writing = {{.open = "<|tool_calls|>",
                  .call = "<|tool_call:begin|>%i<|tool_call:name|>%n<|tool_call:args|>%a<|tool_call:end|>"}}},
    {.name = "functionary", .in_template = {"<function=", "</function>"}, .body = BODY_NAMED,
     .begin = "<function=", .end = "</function>", .name_end = ">", .writing = {{.call = "<function=%n>%a</function>"}}},
    {.name = "command-r", .in_template = {"<|START_ACTION|>"}, .body = BODY_JSON,
     .begin = "<|START_ACTION|>", .end = "<|END_ACTION|>",
     .writing = {{.open = "<|START_ACTION|>~[~", .more = ",~", .close = "~]<|END_ACTION|>",
                  .call = "{\"tool_call_id\":~\"%d\",~\"tool_name\":~\"%n\",~\"parameters\":~%a~}"}}},
    {.name = "nemotron", .in_template = {"<TOOLCALL>"}, .body = BODY_JSON,
     .begin = "<TOOLCALL>", .end = "</TOOLCALL>", .writing = LISTED("<TOOLCALL>", "arguments", "</TOOLCALL>")},
    {.name = "tool_calls", .in_template = {"<tool_calls>"}, .body = BODY_JSON,
     .begin = "<tool_calls>", .end = "</tool_calls>", .repeats = true,
     .writing = {{.in_template = "<tool_calls>[", .open = "<tool_calls>~[~", .call = OBJECT("arguments"), .more = ",~", .close = "~]</tool_calls>"},
                 {.open = "<tool_calls>~", .call = OBJECT("arguments"), .more = "~", .close = "~</tool_calls>"}}},
    {.name = "gigachat3.1", .in_template = {"<|function_call|>"}, .body = BODY_JSON, .begin = "<|function_call|>",
     .between = {"<|message_sep|>"}, .writing = {{.call = "<|function_call|>" OBJECT("arguments")}}},
    {.name = "gigachat3", .in_template = {"'function call'", "<|role_sep|>"}, .body = BODY_JSON, .begin = "function call<|role_sep|>",
     .between = {"<|message_sep|>"}, .writing = {{.call = "function call<|role_sep|>\n" OBJECT("arguments")}}},
    {.name = "internlm2", .in_template = {"<|action_start|><|plugin|>"}, .body = BODY_JSON,
     .begin = "<|action_start|><|plugin|>", .end = "<|action_end|>",
     .writing = {{.call = "<|action_start|><|plugin|>\n" OBJECT("parameters") "<|action_end|>"}}},
    {.name = "olmo3", .in_template = {"<function_calls>"}, .body = BODY_PYTHON,
     .begin = "<function_calls>", .end = "</function_calls>", .arguments = &olmo_arguments,
     .writing = {{.open = "<function_calls>~", .call = "%n(%a)", .more = "\n", .close = "~</function_calls>"}}},
    {.name = "granite", .in_template = {"<|tool_call|>"}, .body = BODY_JSON,
     .begin = "<|tool_call|>", .end = "<|/tool_call|>", .writing = LISTED("<|tool_call|>", "arguments", "")},
    {.name = "apertus", .in_template = {"<|tools_prefix|>"}, .body = BODY_JSON,
     .begin = "<|tools_prefix|>", .end = "<|tools_suffix|>",
     .writing = {{.open = "<|tools_prefix|>[", .call = "{\"%n\":~%a~}", .more = ",~", .close = "]<|tools_suffix|>"}}},
    {.name = "firefunction", .in_template = {"functools["}, .body = BODY_JSON, .begin = "functools",
     .writing = LISTED("functools", "arguments", "")},
    {.name = "lfm2", .in_template = {"<|tool_call_start|>"}, .body = BODY_PYTHON,
     .begin = "<|tool_call_start|>", .end = "<|tool_call_end|>", .arguments = &python_arguments,
     .writing = {{.open = "<|tool_call_start|>[", .call = "%n(%a)", .more = ",~", .close = "]<|tool_call_end|>"}}},
    {.name = "gemma4", .in_template = {"<|tool_call>"}, .body = BODY_PAIRS,
     .begin = "<|tool_call>", .end = "<tool_call|>", .quote = "<|\"|>", .arguments = &gemma4_arguments,
     .writing = {{.call = "<|tool_call>call:%n{%a}<tool_call|>"}}},
    {.name = "functiongemma", .in_template = {"<start_function_call>"}, .body = BODY_PAIRS,
     .begin = "<start_function_call>", .end = "<end_function_call>", .quote = "<escape>", .arguments = &functiongemma_arguments,
     .writing = {{.call = "<start_function_call>call:%n{%a}<end_function_call>"}}},
    {.name = "tool_code", .in_template = {"tool_code"}, .body = BODY_PYTHON,
     .begin = "```tool_code", .end = "```", .arguments = &python_arguments, .writing = {{.call = "```tool_code\n%n(%a)\n```"}}},
    {.name = "pythonic", .in_template = {"(params_name1"}, .body = BODY_PYTHON,
     .between = {"<|python_start|>", "<|python_end|>"}, .arguments = &python_arguments,
     .writing = {{.open = "[", .call = "%n(%a)", .more = ",~", .close = "]"}}},
    {.name = "llama3", .in_template = {"\"name\": ", "\"parameters\": "}, .body = BODY_JSON,
     .between = {"<|python_tag|>", "```json", "```"}, .separator = ";",
     .writing = {{.call = OBJECT("parameters"), .more = "~;~"}}},
    {.name = "json", .in_template = {"\"name\": ", "\"arguments\": "}, .body = BODY_JSON,
     .between = {"<|python_tag|>", "```json", "```"}, .separator = ";",
     .writing = {{.call = OBJECT("arguments"), .more = "~;~"}}},
};

static const reasoning_form reasoning_forms[] = {
    {.name = "kimi-k3", .in_template = "<|open|>", .begin = "<|open|>think<|sep|>", .end = "<|close|>think<|sep|>",
     .around = {"<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>"}},
    {.name = "think", .begin = "<think>", .end = "</think>"},
    {.name = "mistral", .begin = "[THINK]", .end = "[/THINK]"},
    {.name = "seed-oss", .begin = "<seed:think>", .end = "</seed:think>"},
    {.name = "minimax-m3", .begin = "<mm:think>", .end = "</mm:think>"},
    {.name = "command-r", .begin = "<|START_THINKING|>", .end = "<|END_THINKING|>"},
    {.name = "gemma4", .in_template = "<|channel>", .begin = "<|channel>thought", .end = "<channel|>"},
    {.name = "apertus", .begin = "<|inner_prefix|>", .end = "<|inner_suffix|>"},
    {.name = "kimi-vl", .begin = "\xe2\x97\x81think\xe2\x96\xb7", .end = "\xe2\x97\x81/think\xe2\x96\xb7"},
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

bool zt_reply_holds_calls(zt_bytes template_text)
{
    if (!template_text.n) return false;
    const call_form *form = zt_reply_find_form(template_text);
    return zt_reply_has_channels(template_text) || (form && form->writing[0].call);
}

const char *zt_reply_reasoning_form(zt_bytes template_text)
{
    if (!template_text.n) return NULL;
    if (zt_reply_has_channels(template_text)) return "harmony";
    const reasoning_form *form = zt_reply_find_reasoning(template_text);
    return form ? form->name : NULL;
}
