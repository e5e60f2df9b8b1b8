/* session.c - --session: the KV cache comes from a file, and goes back into it.
 *
 * The file is a cache and nothing more: what is fed is decided by comparing tokens, so that a run
 * with it gives the bits of a run without it.
 */
#include "tools/zt-run/run.h"

#include <stdio.h>
#include <unistd.h>

/* Whatever gives the cache other bits. */
static const char *arithmetic_key(const run_state *run, char buffer[64])
{
    snprintf(buffer, 64, "zt " ZT_VERSION " %s %s%s", zt_engine_inmost(run->engine)->vt->name, zt_isa_name(run->cli->isa),
             run->options->exact ? " exact" : "");
    return buffer;
}

zt_status run_session_load(run_state *run)
{
    char arithmetic[64], key[33];
    if (access(run->options->session, F_OK) != 0)
        return ZT_OK;
    zt_status status = zt_llm_key(run->gguf, key);
    return status ? status : zt_llm_load(run->llm, key, arithmetic_key(run, arithmetic), run->options->session, &run->fed_ids);
}

zt_status run_session_save(run_state *run)
{
    char arithmetic[64], key[33];
    zt_status status = zt_llm_key(run->gguf, key);
    return status ? status : zt_llm_save(run->llm, key, arithmetic_key(run, arithmetic), run->fed_ids.id, run->options->session);
}
