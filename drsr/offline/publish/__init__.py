"""The publish stage: a policy package that can be traced and built again, if every gate passes.

stage.publish(...)         build, judge, write and record a release
lineage                    the hash chain from the package back to the runs
package, model_card        what is in the wheel
gates, succession          what must hold before a release, and against the one before
"""
