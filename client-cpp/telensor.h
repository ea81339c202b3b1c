// The C++ client of telensor: include this one file.
//
//   telensor::connect("unix:/run/user/1000/telensor/telensord.sock");  // or nothing: a private server is started
//   telensor::Tensor x = telensor::randn({2, 3});
//   telensor::Tensor y = (x * 2 + 1).relu();
#pragma once

#include "client-cpp/operators.h"
#include "client-cpp/ops.h"
#include "client-cpp/tensor.h"

namespace telensor {

// Opens the session that all tensors of this process live in. Throws where one is open already with another server.
void connect(const std::string& address);
// Seeds the session's random numbers.
void manual_seed(uint64_t seed);
// Waits until everything sent so far is done; throws what failed since the last wait.
void synchronize();

struct SessionStats {
  uint64_t ops = 0;                   // sent
  uint64_t batches = 0;               // messages they took
  uint64_t blocked_round_trips = 0;   // times a caller waited for the server
};
SessionStats session_stats();

}  // namespace telensor
