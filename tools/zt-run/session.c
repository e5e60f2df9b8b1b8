/* session.c - --session: the KV cache comes from a file, and goes back into it.
 *
 * The file is a cache and nothing more: what is fed is decided by comparing tokens, so that a run
 * with it gives the bits of a run without it.
 */
#include "tools/zt-run/run.h"

#include <stdio.h>
#include <unistd.h>

/* Whatever gives the cache other bits. */
static const char *arithmetic(const run *r, char buf[64])
{
    snprintf(buf, 64, "zt " ZT_VERSION " %s %s%s", zt_engine_inmost(r->engine)->vt->name,
             zt_isa_name(r->cli->isa), r->o->exact ? " exact" : "");
    return buf;
}

zt_status run_session_load(run *r)
{
    char how[64], key[33];
    if (access(r->o->session, F_OK) != 0)
        return ZT_OK;
    zt_status s = zt_llm_key(r->gguf, key);
    return s ? s : zt_llm_load(r->llm, key, arithmetic(r, how), r->o->session, &r->fed);
}

zt_status run_session_save(run *r)
{
    char how[64], key[33];
    zt_status s = zt_llm_key(r->gguf, key);
    return s ? s : zt_llm_save(r->llm, key, arithmetic(r, how), r->fed.id, r->o->session);
}
