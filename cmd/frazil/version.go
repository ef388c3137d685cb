package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

func init() {
	register(command{"version", "", "show the version", (*cli).version})
}

func (c *cli) version(args []string) int {
	rest, code, ok := c.flags("version", args, nil)
	if !ok {
		return code
	}
	if len(rest) > 0 {
		return c.wrong("version takes no %q", rest[0])
	}
	fmt.Fprintf(c.out, "frazil %s %s %s/%s\n", buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return exitOK
}

// buildVersion is the version of the module and the revision it was built from.
func buildVersion() string {
	version, revision := "(devel)", ""
	if b, ok := debug.ReadBuildInfo(); ok {
		if b.Main.Version != "" {
			version = b.Main.Version
		}
		for _, s := range b.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				revision = " " + s.Value[:12]
			}
			if s.Key == "vcs.modified" && s.Value == "true" {
				revision += "+changes"
			}
		}
	}
	return version + revision
}
