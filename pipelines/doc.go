// Package pipelines makes a planned graph of a pipeline file: it reads the YAML,
// finds every mistake in it, and plans each step with its component. Nothing
// here connects to anything, and nothing here knows a component: they are found
// by name in the registry, and package pipelines/std is the list of them.
//
// The command's lint and run use the same [Load], so that their verdicts cannot
// differ. Start to read there.
package pipelines
