package operators

import (
	"context"
	"slices"
	"strings"

	"frazil/dataflow"
	"frazil/dataflow/component"
)

// RenameConfig configures rename.
type RenameConfig struct {
	// Columns maps names of input columns to new names: {old: new}. Columns keep their
	// places; those that are not named keep their names.
	Columns map[string]string `yaml:"columns,required"`
}

func init() {
	component.RegisterOperator(component.Operator[RenameConfig]{
		Name:    "rename",
		Summary: "Gives columns other names.",
		Doc: `Columns stay where they are, as they are. All names are given at once, so that two
columns can swap theirs. Of a changelog the columns of the key may be renamed as well.
To compute or leave out columns too, take project.`,
		Changes: true,
		Default: func() RenameConfig { return RenameConfig{} },
		Plan:    planRename,
		New:     newRename,
	})
}

// project is what rename is: a project that does nothing else.
func (c RenameConfig) project() ProjectConfig { return ProjectConfig{Rename: c.Columns} }

func planRename(in component.OperatorIn, cfg RenameConfig) (component.OperatorPlan, error) {
	if len(cfg.Columns) == 0 {
		return component.OperatorPlan{}, component.Badf("columns", "rename has nothing to do: give columns: {OLD: NEW, ...}")
	}
	plan, err := planProject(in, cfg.project())
	problems := slices.Clone(component.AsProblems(err))
	for i, p := range problems {
		if rest, ok := strings.CutPrefix(p.Path, "rename"); ok {
			problems[i].Path = "columns" + rest
		}
	}
	if len(problems) > 0 {
		return component.OperatorPlan{}, problems
	}
	plan.Ports = plan.Ports[:statelessBad] // No row can fail.
	return plan, nil
}

func newRename(ctx context.Context, env *dataflow.Env, in component.OperatorIn, cfg RenameConfig) (dataflow.Operator, error) {
	return newProject(ctx, env, in, cfg.project())
}
