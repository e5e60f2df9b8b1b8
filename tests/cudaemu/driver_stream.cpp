/* driver_stream.cpp - the emulated driver's streams, graphs and events. What a stream holds is work.cpp's. */
#include "driver.h"

#include <algorithm>

bool emu_driver::knows(const emu_stream *s) const
{
    return std::find(streams.begin(), streams.end(), s) != streams.end();
}
int emu_driver::drain(emu_stream *s)
{
    int r = emu_drain(s);
    if (r) broken = r;
    return r;
}
int emu_driver::drain_all()
{
    for (emu_stream *s : streams)
        if (int r = drain(s)) return r;
    return EMU_OK;
}

API cuStreamCreate(emu_stream **s, unsigned)
{
    ENTER(true);
    *s = new emu_stream();
    driver.streams.push_back(*s);
    return EMU_OK;
}
API cuStreamDestroy_v2(emu_stream *s)
{
    ENTER(false);
    auto it = std::find(driver.streams.begin(), driver.streams.end(), s);
    if (it == driver.streams.end()) return EMU_INVALID_HANDLE;
    int r = driver.broken ? driver.broken : driver.drain(s);
    driver.streams.erase(it);
    delete s;
    return r;
}
API cuStreamSynchronize(emu_stream *s)
{
    ENTER(true);
    if (!driver.knows(s)) return EMU_INVALID_HANDLE;
    return s->capturing ? EMU_CAPTURE : driver.drain(s);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

API cuStreamBeginCapture_v2(emu_stream *s, int)
{
    ENTER(true);
    if (!driver.knows(s) || s->capturing) return EMU_INVALID_VALUE;
    s->capturing = true;
    s->captured.clear();
    return EMU_OK;
}
API cuStreamEndCapture(emu_stream *s, emu_graph **g)
{
    ENTER(true);
    if (!driver.knows(s) || !s->capturing) return EMU_INVALID_VALUE;
    s->capturing = false;
    *g = new emu_graph();
    (*g)->commands = std::make_shared<emu_commands>(std::move(s->captured));
    s->captured.clear();
    return EMU_OK;
}
API cuGraphInstantiateWithFlags(emu_graph **x, emu_graph *g, unsigned long long)
{
    ENTER(true);
    *x = new emu_graph(*g);
    return EMU_OK;
}
API cuGraphLaunch(emu_graph *x, emu_stream *s)
{
    ENTER(true);
    emu_command c = {};
    if (!driver.knows(s)) return EMU_INVALID_HANDLE;
    c.kind = emu_command::GRAPH;
    c.graph = x->commands;
    emu_add(s, c);
    return EMU_OK;
}
API cuGraphExecDestroy(emu_graph *x)
{
    ENTER(false);
    delete x;
    return EMU_OK;
}
API cuGraphDestroy(emu_graph *g)
{
    ENTER(false);
    delete g;
    return EMU_OK;
}

/* ---- events ---------------------------------------------------------------------------------- */

API cuEventCreate(emu_event **v, unsigned)
{
    ENTER(true);
    *v = new emu_event();
    return EMU_OK;
}
API cuEventDestroy_v2(emu_event *v)
{
    ENTER(false);
    if (!driver.broken) driver.drain_all();
    delete v;
    return EMU_OK;
}
API cuEventRecord(emu_event *v, emu_stream *s)
{
    ENTER(true);
    emu_command c = {};
    if (!driver.knows(s)) return EMU_INVALID_HANDLE;
    c.kind = emu_command::EVENT;
    c.event = v;
    v->recorded = true;
    v->done = false;
    emu_add(s, c);
    return EMU_OK;
}
API cuEventSynchronize(emu_event *v)
{
    ENTER(true);
    return v->recorded && !v->done ? driver.drain_all() : EMU_OK;
}
API cuEventElapsedTime(float *ms, emu_event *from, emu_event *to)
{
    ENTER(true);
    if (!from->recorded || !to->recorded) return EMU_INVALID_HANDLE;
    if (!from->done || !to->done) return EMU_NOT_READY;
    *ms = (float)((to->at - from->at) * 1e3);
    return EMU_OK;
}
