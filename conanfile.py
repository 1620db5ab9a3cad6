"""Sinter as a Conan 2 package: plain headers, the same for every compiler and configuration.

Option with_jit takes Xbyak, which Conan Center has. Option with_onednn takes the oneDNN that the system
has, through packaging/conan/onednn: `conan create packaging/conan/onednn` first.
"""

import re
from pathlib import Path

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.files import copy, load
from conan.tools.layout import basic_layout


class SinterConan(ConanFile):
    name = "sinter"
    description = "Fused chains of neural-network operations, written as C++ expressions"
    license = "Apache-2.0"
    topics = ("inference", "neural-network", "fusion", "jit", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"with_onednn": [True, False], "with_jit": [True, False]}
    default_options = {"with_onednn": False, "with_jit": True}
    exports_sources = "include/*", "src/backends.cpp", "cmake/sinter_backends*.cmake", "LICENSE"
    test_package_folder = "packaging/conan/test_package"
    no_copy_source = True

    def set_version(self):
        config = load(self, Path(self.recipe_folder) / "include/sinter/config.hpp")
        part = r"#define SINTER_VERSION_{} (\d+)"
        self.version = ".".join(
            re.search(part.format(name), config)[1] for name in ("MAJOR", "MINOR", "PATCH"))

    def layout(self):
        basic_layout(self)

    def requirements(self):
        if self.options.with_jit:
            self.requires("xbyak/[>=7]")
        if self.options.with_onednn:
            self.requires("onednn/system")

    def validate(self):
        check_min_cppstd(self, 20)

    def package_id(self):
        self.info.clear()

    def package(self):
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder) / "licenses")
        copy(self, "*", Path(self.source_folder) / "include", Path(self.package_folder) / "include")
        for pattern, folder in (("backends.cpp", "src"), ("sinter_backends*.cmake", "cmake")):
            copy(self, pattern, Path(self.source_folder) / folder, Path(self.package_folder) / "cmake")

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "sinter")
        self.cpp_info.set_property("cmake_target_name", "sinter::sinter")
        self.cpp_info.set_property("pkg_config_name", "sinter")
        # Defines sinter::backends, which is compiled by the project that links it.
        self.cpp_info.set_property("cmake_build_modules", [
            "cmake/sinter_backends.cmake", "cmake/sinter_backends_component.cmake"])
        self.cpp_info.builddirs = ["cmake"]
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        self.cpp_info.defines = [
            f"SINTER_WITH_{what}={1 if self.options.get_safe(option) else 0}"
            for what, option in (("ONEDNN", "with_onednn"), ("JIT", "with_jit"))]
        if self.settings.os in ("Linux", "FreeBSD"):
            self.cpp_info.system_libs = ["dl"]
