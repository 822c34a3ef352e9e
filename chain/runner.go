package chain

import "context"

// Runner takes messages through the plan in force and has their deferred work done in this process. It is for those
// who embed chaintrail without a [Recorder]: with one, deferred work is done from the recorded events instead. All
// methods are concurrent.
type Runner struct {
	current    func() *Plan
	background *Background
}

// NewRunner returns a runner of the plan that current returns at each message, such as [Set.Current]; nil from it
// means no interceptors. background MUST be closed by the caller, after the last Run.
func NewRunner(current func() *Plan, background *Background) *Runner {
	return &Runner{current: current, background: background}
}

// Run is [Plan.Run], and then hands the deferred work over without waiting for it.
func (r *Runner) Run(ctx context.Context, in Input) Result {
	plan := r.current()
	if plan == nil {
		return notRun(&in)
	}
	result := plan.Run(ctx, in)
	r.background.Submit(ctx, plan, &in, &result)
	return result
}

// Plan returns the plan in force; nil: none.
func (r *Runner) Plan() *Plan { return r.current() }
