package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"frazil/dataflow/component"
	"frazil/pipelines"
	_ "frazil/pipelines/std"
)

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // at run time
	exitWrong  = 2 // the pipeline file or the command line
)

// command is one subcommand.
type command struct {
	name string
	// args as the usage line shows them.
	args, summary string
	run           func(c *cli, args []string) int
}

var commands []command

// register makes a subcommand known. Call it from init, once per file.
func register(c command) {
	if slices.ContainsFunc(commands, func(o command) bool { return o.name == c.name }) {
		panic("command " + c.name + " is registered twice")
	}
	commands = append(commands, c)
	slices.SortFunc(commands, func(a, b command) int { return strings.Compare(a.name, b.name) })
}

// cli is what a subcommand may use of the outside.
type cli struct {
	in       io.Reader
	out, err io.Writer
	// lookup gives the value of a variable.
	lookup func(string) (string, bool)
	// parallelism where a file does not set it; 0 is the number of cores.
	parallelism int
}

func main() {
	os.Exit((&cli{in: os.Stdin, out: os.Stdout, err: os.Stderr, lookup: os.LookupEnv}).main(os.Args[1:]))
}

func (c *cli) main(args []string) int {
	if len(args) == 0 {
		c.usage(c.err)
		return exitWrong
	}
	name := args[0]
	switch name {
	case "-h", "-help", "--help":
		c.usage(c.out)
		return exitOK
	case "--version", "-version":
		name = "version"
	}
	for _, cmd := range commands {
		if cmd.name == name {
			return cmd.run(c, args[1:])
		}
	}
	return c.wrong("there is no command %q%s; see frazil --help", name, component.DidYouMean(name, commandNames()))
}

func commandNames() []string {
	var out []string
	for _, cmd := range commands {
		out = append(out, cmd.name)
	}
	return out
}

func (c *cli) usage(w io.Writer) {
	fmt.Fprint(w, "Frazil: streams in, Iceberg tables out.\n\nUsage: frazil COMMAND [ARGUMENTS]\n\n")
	width := 0
	for _, cmd := range commands {
		width = max(width, len(cmd.name)+len(cmd.args)+1)
	}
	for _, cmd := range commands {
		fmt.Fprintf(w, "  %-*s  %s\n", width, cmd.name+" "+cmd.args, cmd.summary)
	}
	fmt.Fprint(w, "\nExit codes: 0 fine, 1 failed at run time, 2 the file or the command line is wrong.\n")
}

// wrong reports a mistake of the command line.
func (c *cli) wrong(format string, args ...any) int {
	fmt.Fprintf(c.err, "frazil: "+format+"\n", args...)
	return exitWrong
}

// failed reports an error at run time.
func (c *cli) failed(err error) int {
	fmt.Fprintf(c.err, "frazil: %v\n", err)
	return exitFailed
}

// flags parses args, with flags before, between and behind the others, and
// returns the others. ok is false if the command is over, with code.
func (c *cli) flags(name string, args []string, define func(*flag.FlagSet)) (rest []string, code int, ok bool) {
	fs := flag.NewFlagSet("frazil "+name, flag.ContinueOnError)
	fs.SetOutput(c.err)
	fs.Usage = func() {
		for _, cmd := range commands {
			if cmd.name == name {
				fmt.Fprintf(c.err, "Usage: frazil %s\n%s.\n", strings.TrimSpace(cmd.name+" "+cmd.args), cmd.summary)
			}
		}
		fs.PrintDefaults()
	}
	if define != nil {
		define(fs)
	}
	for {
		if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
			return nil, exitOK, false
		} else if err != nil {
			return nil, exitWrong, false
		}
		if fs.NArg() == 0 {
			return rest, exitOK, true
		}
		rest, args = append(rest, fs.Arg(0)), fs.Args()[1:]
	}
}

// format is a flag for the output: text for people, or one for programs.
func format(fs *flag.FlagSet, into *string, known ...string) {
	*into = known[0]
	fs.Func("format", "output: "+strings.Join(known, ", ")+" (default "+known[0]+")", func(s string) error {
		if !slices.Contains(known, s) {
			return fmt.Errorf("expected %s", strings.Join(known, " or "))
		}
		*into = s
		return nil
	})
}

// load is the one way from a file to a pipeline, for every command. Problems
// are written; the pipeline is then nil.
func (c *cli) load(path string) *pipelines.Pipeline {
	p, problems := pipelines.Load(path, pipelines.Options{Lookup: c.lookup, Parallelism: c.parallelism})
	for _, x := range problems {
		fmt.Fprintln(c.err, x)
	}
	return p
}
