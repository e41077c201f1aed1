"""Small classes of our own with the public names of Trinity-RFT, for where it is not installed.

They cover what a workflow file needs: tasks, workflows, experiences, rewards, registries. There is
no explorer, no trainer and no server. ``areal.experimental.trinity.package`` puts them into
``sys.modules`` when a workflow is loaded.

Source:
    The names, signatures and observable behaviour of the installed package trinity-rft 0.6.0.
"""
