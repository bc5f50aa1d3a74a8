"""What would happen: simulators that call the scheduler's own code on made-up clusters.

document.py   reads what they are given, as forgiving about letters as KAI's tools
fairshare.py  divides resources among queues, once
scenario.py   a cluster, its queues and what they want
timeline.py   lets queues compete for thousands of cycles
chart.py      draws what came of it
trace/        replays the jobs of a trace
"""
