// Command guest lets one simulated world pass and writes what became of it as a line
// of JSON. The tests of package simulation compile it against a runtime in which time,
// randomness and the scheduler follow from its arguments.
package main

import (
	"flag"
	"os"

	"frazil/test/simulation/world"
)

func main() {
	var o world.Options
	flag.Uint64Var(&o.Seed, "seed", 1, "the world")
	flag.DurationVar(&o.For, "for", 0, "how long it lasts")
	flag.BoolVar(&o.Days, "days", false, "few events, long times")
	flag.BoolVar(&o.Second, "second", false, "start a second process now and then")
	flag.StringVar(&o.Bug, "bug", "", "a planted bug")
	flag.Parse()
	o.Jump = jump
	o.Verbose = os.Getenv("FRAZIL_SIM_TRACE") == "1" // write what happens to stderr
	world.Run(o).Print(os.Stdout)
}
