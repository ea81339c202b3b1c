// The server's log: to standard error, as text or as one JSON object a line, whatever a message holds.
#pragma once

#include <string>
#include <string_view>

#include "server/config.h"

namespace telensor::server {

// Called once, before anything is logged. Messages of the libraries below go the same way.
void StartLog(const Config& config);

// What a peer or a library said, fit for one line: control characters and bytes that are no UTF-8 are escaped, with
// `json` what JSON needs besides.
std::string Printable(std::string_view text, bool json);

}  // namespace telensor::server
