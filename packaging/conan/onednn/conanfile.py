"""The oneDNN that the system already has, as a Conan 2 package: onednn/system.

oneDNN is in no Conan remote. A system's own package cannot take its place through [platform_requires]:
Conan then drops the dependency, its link flags too. This recipe holds nothing but those flags. For a
oneDNN in a folder of its own: conf user.sinter:onednn_prefix=/opt/onednn.
"""

import re
from pathlib import Path

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.scm import Version

MINIMUM = "3.4"


class OnednnSystemConan(ConanFile):
    name = "onednn"
    version = "system"
    description = "oneDNN as installed on this system"
    license = "Apache-2.0"
    package_type = "shared-library"
    settings = "os", "arch"

    def _prefix(self):
        return Path(self.conf.get("user.sinter:onednn_prefix", default="/usr", check_type=str))

    def _found_version(self):
        headers = [self._prefix() / "include/oneapi/dnnl/dnnl_version.h",
                   *self._prefix().glob("include/*/oneapi/dnnl/dnnl_version.h")]
        for header in filter(Path.is_file, headers):
            numbers = [re.search(rf"#define DNNL_VERSION_{part} +(\d+)", header.read_text())
                       for part in ("MAJOR", "MINOR", "PATCH")]
            if all(numbers):
                return ".".join(n[1] for n in numbers)
        return None

    def validate(self):
        found = self._found_version()
        if found is None or Version(found) < MINIMUM:
            raise ConanInvalidConfiguration(
                f"oneDNN {MINIMUM} or newer is wanted under {self._prefix()}; found: {found}. Install "
                "libdnnl-dev, or name another prefix in the conf user.sinter:onednn_prefix")

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "dnnl")
        self.cpp_info.set_property("cmake_target_name", "DNNL::dnnl")
        self.cpp_info.bindirs = []
        self.cpp_info.includedirs = []
        self.cpp_info.libdirs = []
        if self._prefix() != Path("/usr"):  # the compiler looks there anyway
            self.cpp_info.includedirs = [str(self._prefix() / "include")]
            self.cpp_info.libdirs = [str(d) for d in (self._prefix() / "lib", self._prefix() / "lib64")
                                     if d.is_dir()]
        self.cpp_info.system_libs = ["dnnl"]
