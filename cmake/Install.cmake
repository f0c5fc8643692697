# Installs program, library and a package for find_package(cxtrain); src/CMakeLists.txt installs headers and plugins.

set_target_properties(cxtrain PROPERTIES INSTALL_RPATH "$ORIGIN;${LibTorch_LIBRARY_DIRS}")
cxtrain_keep_library_paths(cxtrain cxtrain_mpi)
install(TARGETS cxtrain EXPORT cxtrainTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS cxtrain_mpi RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(EXPORT cxtrainTargets NAMESPACE cxtrain:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cxtrain)

configure_package_config_file(cmake/cxtrainConfig.cmake.in "${PROJECT_BINARY_DIR}/cxtrainConfig.cmake"
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cxtrain)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/cxtrainConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/cxtrainConfig.cmake" "${PROJECT_BINARY_DIR}/cxtrainConfigVersion.cmake"
              cmake/FindLibTorch.cmake cmake/CxtrainPlugin.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cxtrain)

# What a user reads: README, the documents, and the examples' sources, which show how models and data are written.
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.cpp")

foreach(file digits.csv.gz bible-kjv.txt)  # what scripts/setup.sh fetched
  if(EXISTS "${PROJECT_SOURCE_DIR}/.deps/data/${file}")
    install(FILES "${PROJECT_SOURCE_DIR}/.deps/data/${file}" DESTINATION ${CMAKE_INSTALL_DATADIR}/cxtrain/data)
    # And for a build folder that does not lie in the checkout.
    file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/share/cxtrain/data")
    file(CREATE_LINK "${PROJECT_SOURCE_DIR}/.deps/data/${file}" "${PROJECT_BINARY_DIR}/share/cxtrain/data/${file}" SYMBOLIC)
  endif()
endforeach()
