// Streams and events: the stream_* and event_* functions of the ABI.
#pragma once

#include <cstdint>

#include "kernels/plugin_abi.h"

namespace telensor::cuda {

int StreamCreate(int32_t device, tt_stream* out);
int StreamDestroy(int32_t device, tt_stream stream);
int StreamSynchronize(int32_t device, tt_stream stream);
int StreamWaitEvent(int32_t device, tt_stream stream, tt_event event);
int EventCreate(int32_t device, tt_event* out);
int EventDestroy(int32_t device, tt_event event);
int EventRecord(int32_t device, tt_event event, tt_stream stream);
int EventQuery(int32_t device, tt_event event);
int EventSynchronize(int32_t device, tt_event event);

}  // namespace telensor::cuda
