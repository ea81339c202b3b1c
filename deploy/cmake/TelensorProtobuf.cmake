# protobuf::libprotobuf and protobuf::protoc. Since version 22 protobuf needs Abseil: a protobuf built by CMake says so
# in its own config file, so that one is asked first. CMake's module, which finds all others, knows of no Abseil.
find_package(Protobuf CONFIG QUIET)
if(NOT TARGET protobuf::libprotobuf)
  find_package(Protobuf MODULE REQUIRED)
  # Versions from 22 on call themselves 4.22 and up.
  if(Protobuf_VERSION VERSION_GREATER_EQUAL 4.22)
    # What generated code and the headers it includes use; a shared libprotobuf brings the rest itself.
    set_property(TARGET protobuf::libprotobuf APPEND PROPERTY INTERFACE_LINK_LIBRARIES
      absl::absl_check absl::absl_log absl::cord absl::core_headers absl::flat_hash_map absl::hash absl::status
      absl::statusor absl::strings absl::synchronization)
  endif()
endif()
