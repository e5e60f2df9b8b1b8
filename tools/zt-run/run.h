/* run.h - private to zt-run: its options, and one request on its way from prompt to report. */
#ifndef ZT_RUN_TOOL_H
#define ZT_RUN_TOOL_H

#include "tools/common/adapters.h"
#include <jansson.h>

#include "lib/llm/grammar/grammar.h"
#include "lib/llm/jinja/jinja.h"
#include "lib/llm/reply/reply.h"
#include "lib/llm/speculate.h"
#include "tools/common/cli.h"

/* ---- options (options.c) --------------------------------------------------------------------- */

enum {
    MOST_LOGPROBS = 1000,
    USUAL_CTX = 4096 /* or the model's, if smaller, where --ctx says nothing */
};

#define WORDS ZT_OPTION_WORDS
#include "tools/zt-run/options.def"

typedef struct run_options {
#define OPTION ZT_OPTION_FIELD
#include "tools/zt-run/options.def"
    zt_sampler sampler; /* its seed is the shared --seed */
} run_options;

/* What zt-run does: the modes of its option table. */
enum {
    RUN_TEXT,
    RUN_CHAT,
    RUN_JSONL,
    RUN_SERVE,
    RUN_RENDER,
    RUN_TOKENIZE,
    RUN_DETOKENIZE,
    RUN_COUNT,
    RUN_PERPLEXITY,
    RUN_EMBED,
    RUN_VERIFY,
    RUN_DRY,
    RUN_PROGRAM,
    RUN_NETWORK,
    RUN_N_MODES
};

extern const zt_tool run_tool;
run_options *run_options_init(void); /* with defaults, before the command line is read */
zt_status run_options_check(zt_cli *cli, const run_options *options);

/* ---- one request ----------------------------------------------------------------------------- */

typedef struct run_times run_times; /* of each op: model.c */

typedef struct run_state {
    zt_cli *cli;
    zt_ctx *ctx;
    const run_options *options;
    double start_time; /* when the process began, as zt_seconds has it */
    zt_gguf *gguf;
    zt_checkpoint *base_model; /* with --lora: the model without adapters; NULL: there are none */
    zt_adapters adapters;      /* of --lora */
    zt_vocab *vocab;
    struct run_templates *templates;   /* of all requests: template.c */
    const zt_template *template;       /* a template by rule; NULL: none is used */
    zt_jinja *jinja;                   /* a template that is a program; NULL: none is used. Never both */
    struct run_grammars *grammars;     /* of all requests: grammar.c */
    struct run_grammar *grammar;       /* what the answer is held to; NULL: nothing */
    const char *form;                  /* the option that says it: "json_schema", "grammar", "choices", "regex" */
    zt_grammar_matcher *matcher;       /* follows the answer; NULL: it is held to nothing */
    zt_grammar_matcher *draft_matcher; /* follows drafts */
    zt_str *prompt_end;                /* NULL; or run_reply_begin only puts the end of the prompt there */
    char *prompt_text;                 /* [prompt_bytes] */
    size_t prompt_bytes;
    zt_sink *sink;      /* of --output; NULL: stdout */
    bool terminal;      /* text goes to a terminal */
    zt_plan_file *plan; /* of --plan; NULL: none */
    zt_prog *forward;   /* of --program; NULL: none */
    zt_engine *engine;
    run_times *times; /* NULL: not asked for */
    zt_llm *llm;
    zt_ids ids;          /* the prompt, then what was generated */
    size_t prompt_count; /* the first so many are the prompt */
    zt_ids fed_ids;      /* what the KV cache holds */
    size_t reused_count; /* tokens of the prompt that the cache held already */
    /* generation */
    int64_t vocab_rows; /* logits of a row */
    int64_t choices;    /* the first so many have a token in the vocabulary, the others are padding */
    float *logits;      /* [logits_rows, vocab_rows]: of the last token, of a draft's, or of a piece of the prompt */
    int64_t logits_rows;
    int32_t next_ids[ZT_DRAFT_ROWS]; /* the tokens chosen, where the engine chooses; there are no logits then */
    size_t logits_row;               /* the row of logits or next_ids that follows the last token */
    zt_drafts *drafts;               /* --speculate; NULL: none */
    struct run_draft *draft;         /* --draft; NULL: none */
    size_t drafted_count, accepted_count, draft_batches; /* tokens fed ahead; those that were right; batches with such */
    float *scratch;                                      /* of the sampler, f32[2 * vocab_rows] */
    zt_ids end_ids;               /* tokens that end a text: of --eos, or for --ignore-eos the model's own */
    zt_str held_text, held_shown; /* text that may yet become a stop text; for each byte, whether it is shown */
    zt_str answer_text;           /* what was generated, for --json */
    zt_reply *reply;              /* the same as content, reasoning and tool calls; NULL: not of a conversation */
    bool offers_tools;            /* ... tools are offered */
    zt_str logprobs;              /* the members of the array of that name, for --json */
    zt_str likeliest;             /* --logprobs: the array of the next token; log_sum is log(sum of exp(logit)) */
    double log_sum;
    size_t cut_bytes;        /* bytes at the end of what was generated, from the stop text on */
    const char *stop_reason; /* why generation ended: "eos" "stop" "turn" "length" "ctx" */
    uint64_t seed;
    struct zt_kv_store *kv_store; /* --kv-store; NULL: none */
    json_t *receipt_form;         /* of --receipt: what the answer is held to; NULL: nothing */
    struct run_receipt *receipt;  /* --receipt, --verify; NULL: neither */
    bool keeps_logits;            /* of the step before, for the receipt */
    const char *request_id;       /* of a request, as JSON; NULL: none */
    double loaded_time, asked_time, prompt_time, first_token_time, end_time; /* when, as zt_seconds */
} run_state;

/* network_model.c: the network of --model as a model with the tokenizer of --tokenizer. NULL: failed. */
zt_gguf *run_open_network_model(run_state *run);
/* How the model is opened, as far as the options say. */
zt_llm_opts run_llm_opts(const run_state *run);

/* Data goes to --output, or to stdout at once. */
zt_status run_write(run_state *run, const void *bytes, size_t size);
/* The same for text: on a terminal, control characters are escaped. */
zt_status run_write_text(run_state *run, const char *text, size_t size);
zt_status run_write_table(run_state *run, const zt_table *table);

/* options.c: the names of pre-tokenizers, for zt_opt.values. */
const char *run_pre_tokenizer_names(const void *user, int i);
/* template.c: the names of templates, for zt_opt.values. */
const char *run_template_names(const void *user, int i);
/* template.c: chat templates. They are opened once for all requests. */
typedef struct run_templates run_templates;
run_templates *run_templates_new(const run_state *run);
void run_templates_free(const run_state *run);
/* Sets run->template or run->jinja, as the options say; neither where there is none. `tools`: the model's
 * own template for tools, if it has one. */
zt_status run_choose_template(run_state *run, bool tools);
bool run_has_template(const run_state *run);
const json_t *run_template_args(const run_state *run); /* of --template-arg: an object, NULL: not read yet */
/* Which tools an answer calls. */
typedef struct run_calls {
    bool required, one;             /* it has to call; it calls once at most */
    const char *const *only;        /* [only_count]: the tools that it may call, by name */
    size_t only_count;              /* 0: all */
    const zt_grammar_part *content; /* what an answer is held to that does not call; NULL: nothing */
} run_calls;
/* What a conversation has beside its messages; each of the first may be NULL. */
typedef struct run_beside {
    const json_t *tools, *documents, *args;
    run_calls calls;
} run_beside;
/* Appends the prompt that run->jinja makes of an array of messages to `text`; and to `origin`, for each
 * byte of it, 1 if it comes from the conversation, 0 if from the template. */
zt_status run_render_messages(run_state *run, const json_t *messages, const run_beside *beside, zt_str *text, zt_str *origin);
/* {"role": role, "content": content}. NULL: no memory. */
json_t *run_message(run_state *run, const char *role, const char *content, size_t size);
/* The text with which the template opens a user's turn. A model that generates it is past the end of its
 * answer. run_find_turn must have been called. */
zt_bytes run_turn_text(const run_state *run);
zt_status run_find_turn(run_state *run);

/* grammar.c: structured output. Compiled grammars are shared by all requests. */
typedef struct run_grammars run_grammars;
typedef struct run_grammar run_grammar;
run_grammars *run_grammars_new(const run_state *run);
void run_grammars_free(const run_state *run);
/* Holds the answer to a grammar. `form` is the name of the option or member that says so. */
zt_status run_hold_to(run_state *run, const char *form, const zt_grammar_part *parts, size_t count);
/* Holds it to calls of tools (lib/llm/reply). */
zt_status run_hold_to_calls(run_state *run, const zt_reply_hold *hold);
zt_status run_hold_to_options(run_state *run); /* to what the options say */
void run_release(run_state *run);              /* holds it to nothing */
/* Makes NaN of the logits whose token may not come next. Sets run->stop_reason where none needs to. ZT_EDATA: none may,
 * and the text may not end. */
zt_status run_restrict_logits(run_state *run, float *logits);
zt_status run_follow_grammar(run_state *run, int32_t id); /* a token was chosen */
/* Cuts a draft before the first token that may not come. */
zt_status run_cut_draft(run_state *run, const int32_t *draft, size_t *count);
bool run_is_complete(const run_state *run); /* may the answer end where it ended? */

/* prompt.c: the prompt's text, from where the options say; the template around it; its token ids. */
zt_status run_read_prompt(run_state *run);
unsigned run_encode_flags(const run_options *options); /* of zt_vocab_encode: --bos, --no-bos and --special */
zt_status run_encode_prompt(run_state *run);           /* of run->prompt_text, into run->ids */
/* Append to ids: a conversation, in either kind of template; a conversation in JSON, with what it has
 * beside its messages, in a template that is a program; the user's next message. */
zt_status run_encode_messages(run_state *run, const zt_message *messages, int message_count, zt_ids *ids);
zt_status run_encode_json(run_state *run, const json_t *messages, const run_beside *beside, zt_ids *ids);
zt_status run_encode_next(run_state *run, const char *text, zt_ids *ids);
/* Appends to ids what a template wrote, from byte `from` on: its special tokens are tokens. With `from` 0
 * there is a BOS as the options say. */
zt_status run_encode_rendered(run_state *run, const zt_str *text, const zt_str *origin, size_t from, zt_ids *ids);
zt_status run_render(run_state *run); /* --render: the prompt as text */

/* tokens.c: the modes that need only the vocabulary. */
zt_status run_tokenize(run_state *run);
zt_status run_detokenize(run_state *run);
zt_status run_count(run_state *run);

/* reply.c: the parts of the answer to a conversation, where an object with them is wanted. Begins it, with the prompt
 * that run->jinja rendered; appends members to the object of --json: "content", "reasoning_content", "tool_calls", and
 * "tool_call_error". */
zt_status run_reply_begin(run_state *run, const zt_str *prompt, const run_beside *beside);
void run_reply_free(run_state *run); /* run->reply is NULL then */
void run_put_reply(const run_state *run, zt_str *json);

/* text.c: generated tokens become text, which is written as soon as it can no longer become a stop text. */
void run_text_begin(run_state *run);
zt_status run_text_put(run_state *run, int32_t id); /* sets run->stop_reason where a text ends it */
zt_status run_text_end(run_state *run);

/* generate.c: the prompt through the model, its logits to a file, then token after token. */
zt_status run_generate(run_state *run);
/* Opens the model, and the engine if it is not open, with a cache for max_tokens (0: for the whole context), and what generating needs.
 * `embed`: for embeddings only. */
zt_status run_open_llm(run_state *run, int64_t max_tokens, bool embed);
/* run->ids is the prompt: feeds what the cache lacks of it, and generates the answer. */
zt_status run_answer(run_state *run);
/* Chooses a token and writes it: from run->next_ids where the engine chooses, else by run->logits. After the
 * last, run->stop_reason says why it is the last. */
zt_status run_next_token(run_state *run);
/* How the next token is chosen:
 *
 *   run_engine_chooses   the likeliest, by the engine
 *   run_engine_draws     by the engine, as *draw says: its history is the tokens that were fed. *sampler has
 *                        to live as long as *draw
 *   run_wants_best       the likeliest, maybe except for those that end a text
 *   otherwise            by the logits */
bool run_wants_best(const run_state *run);
bool run_engine_chooses(const run_state *run);
bool run_engine_draws(const run_state *run, zt_sampler *sampler, zt_draw *draw);
zt_status run_check_room(const run_state *run); /* for the prompt in the context */

float *run_logits(const run_state *run); /* [vocab_rows], of the last token */
zt_status run_catch_up(run_state *run);  /* the cache then holds all of run->ids */

bool run_ends_text(const run_state *run, int32_t id);

/* receipt.c: the record of --receipt, and the one that --verify compares with. Without either, nothing is done. */
zt_status run_receipt_begin(run_state *run); /* of --receipt: the model is open, run->ids is the prompt */
void run_receipt_free(run_state *run);
zt_status run_receipt_check_engine(const run_state *run, const char *option); /* ZT_ENOTSUP: it does not promise its bits */
bool run_receipt_due(const run_state *run, size_t rows);                      /* does it want logits of the next `rows` tokens? */
/* receipt_form.c: the answer is held to a form, which the receipt is to state. */
zt_status run_receipt_form(run_state *run, const char *form, const zt_grammar_part *parts, size_t count);
zt_status run_receipt_logits(run_state *run);            /* from which the next token is chosen */
zt_status run_receipt_token(run_state *run, int32_t id); /* it was chosen, and is the last of run->ids */
zt_status run_receipt_end(run_state *run);
zt_status run_receipt_write(run_state *run);
bool run_receipt_is_verified(const run_state *run);
zt_status run_receipt_replay(run_state *run);                                        /* the text before --from */
size_t run_receipt_draft(const run_state *run, size_t limit, const int32_t **draft); /* recorded tokens, at most `limit` */
zt_bytes run_receipt_turn(const run_state *run);                                     /* the text that opens a user's turn */
zt_status run_verify(run_state *run);                                                /* verify.c */

/* kv_store.c: --kv-store. Without it nothing is done. Opened after the model, and closed before it. */
zt_status run_kv_store_open(run_state *run, bool embed);
/* Blocks behind what the cache has of the prompt, up to `most` tokens of it. */
zt_status run_kv_store_fetch(run_state *run, size_t most);
size_t run_kv_store_stop(const run_state *run, size_t position); /* the next position of the prompt at which to keep */
void run_kv_store_keep(run_state *run);                          /* what the cache has now */
void run_kv_store_close(run_state *run);

/* draft.c: speculative decoding. --draft: its file is read before the model is, and opened after it. */
zt_status run_draft_read(run_state *run);
bool run_head_drafts(const run_options *options); /* --draft mtp: the model's own head */
zt_status run_draft_open(run_state *run, int64_t max_tokens);
zt_status run_draft_plan(run_state *run, int64_t context, zt_llm_info *info); /* its sizes, for --dry-run */
void run_draft_close(run_state *run);
bool run_drafts(const run_state *run); /* are tokens drafted? */
/* What may follow run->ids, at most `limit` tokens. Returns their number. */
size_t run_next_draft(run_state *run, size_t limit, const int32_t **draft);
void run_draft_took(run_state *run, size_t rows, double seconds);
size_t run_draft_room(const run_state *run); /* generate.c: how long a draft may be, by the context and -n */

/* model.c: what goes with the model. */
zt_status run_apply_adapters(run_state *run); /* of --lora, if any */
void run_close_adapters(run_state *run);      /* after the model is closed */
zt_status run_read_forward(run_state *run);   /* --program, if it is given */
zt_status run_read_plan(run_state *run);      /* --plan; sets the engine that it is made for */
zt_status run_open_engine(run_state *run);    /* as the options say */
void run_report_times(run_state *run);        /* of each op */
zt_status run_session_load(run_state *run);   /* the KV cache, from the file of --session */
zt_status run_session_save(run_state *run);

/* chat.c, jsonl.c, serve.c, perplexity.c, embed.c: the other modes of a language model. */
zt_status run_chat(run_state *run);
zt_status run_jsonl(run_state *run);
zt_status run_size_batch(run_state *run, zt_llm_opts *opts); /* sequences and cache of --jsonl and --serve */
zt_status run_serve(run_state *run);
zt_status run_check_serve(zt_ctx *ctx, const run_options *options); /* the values of its options */
bool run_takes_requests(const run_options *options);                /* many texts, as requests come: --jsonl or --serve */
zt_status run_perplexity(run_state *run);
zt_status run_embed(run_state *run);

/* program.c: MODEL is a program, or a network */
bool run_is_program(zt_cli *cli, const char *path);
zt_status run_program(run_state *run);
/* rows.c: runs a network on --chunk rows of its input at a time; writes into the outputs of `feed`. */
struct zt_bound_inputs;
zt_status run_rows(zt_cli *cli, const run_options *options, const struct zt_bound_inputs *feed);

/* report.c */
/* --logprobs: the likeliest tokens, before the sampler changes the logits; then the token chosen. */
zt_status run_note_likeliest(run_state *run);
zt_status run_put_logprobs(run_state *run, int32_t id);
zt_status run_put_json(run_state *run, zt_str *object); /* the object of --json and its newline */
zt_status run_report_json(run_state *run);
void run_report_stats(run_state *run);
zt_status run_dry(run_state *run);
#endif
